package id_test

import (
	"sort"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/id"
)

func TestNewSortsByTimeAndNeverRepeats(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := map[string]bool{}
	var ids []string
	for i := range 2000 {
		s := id.New(id.Run, start.Add(time.Duration(i)*time.Millisecond))
		if seen[s] {
			t.Fatalf("New repeated %q", s)
		}
		if !id.Valid(id.Run, s) {
			t.Fatalf("Valid(%q) = false, want true", s)
		}
		seen[s] = true
		ids = append(ids, s)
	}
	if !sort.StringsAreSorted(ids) {
		t.Error("ids made one millisecond apart do not sort by time")
	}
}

func TestValidRefuses(t *testing.T) {
	good := id.New(id.Run, time.Now())
	for _, s := range []string{"", "run_", good[:len(good)-1], good + "0", "sta" + good[3:], good[:len(good)-1] + "u", good[:len(good)-1] + "/"} {
		if id.Valid(id.Run, s) {
			t.Errorf("Valid(%q) = true, want false", s)
		}
	}
}
