package store

import (
	"reflect"
	"testing"

	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

// An apply saves once for each resource that it makes, so a list of thousands must not be written anew for one.
func TestOnlyResourcesThatDifferAreWritten(t *testing.T) {
	row := func(address string, n int64) db.StateResource {
		return db.StateResource{Address: address, Type: "t", Instances: n}
	}
	for name, c := range map[string]struct {
		have  []db.StateResource
		want  []string // all with one instance
		gone  []string
		added []string
	}{
		"nothing":          {nil, nil, nil, nil},
		"the first list":   {nil, []string{"a", "b"}, nil, []string{"a", "b"}},
		"the same list":    {[]db.StateResource{row("a", 1), row("b", 1)}, []string{"a", "b"}, nil, nil},
		"one more before":  {[]db.StateResource{row("b", 1), row("c", 1)}, []string{"a", "b", "c"}, nil, []string{"a"}},
		"one more between": {[]db.StateResource{row("a", 1), row("c", 1)}, []string{"a", "b", "c"}, nil, []string{"b"}},
		"one more after":   {[]db.StateResource{row("a", 1)}, []string{"a", "b"}, nil, []string{"b"}},
		"one less":         {[]db.StateResource{row("a", 1), row("b", 1), row("c", 1)}, []string{"a", "c"}, []string{"b"}, nil},
		"the last one":     {[]db.StateResource{row("a", 1)}, nil, []string{"a"}, nil},
		"one that changed": {[]db.StateResource{row("a", 1), row("b", 2)}, []string{"a", "b"}, []string{"b"}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []state.Resource
			for _, address := range c.want {
				want = append(want, resource(row(address, 1)))
			}
			gone, rs := differentResources(c.have, want)
			var added []string
			for _, r := range rs {
				added = append(added, r.Address)
			}
			if !reflect.DeepEqual(gone, c.gone) || !reflect.DeepEqual(added, c.added) {
				t.Errorf("gone %q, added %q; want %q, %q", gone, added, c.gone, c.added)
			}
		})
	}
}
