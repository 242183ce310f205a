package worker

import (
	"reflect"
	"strings"
	"testing"
)

func TestErrorsAreFoundInPlainText(t *testing.T) {
	const out = "Initializing provider plugins...\n\n│ Error: Failed to install provider\n│ \n│ Error while installing it:\n│ no hash\n\n" +
		"Warning: something else\n\nmore of that\nError: second\nError: third\nbelow\nError: fourth\nnever told\n"
	for _, size := range []int{1, 3, 1000} {
		e := &errorFinder{said: &spoken{}}
		for rest := out; rest != ""; {
			n := min(size, len(rest))
			if _, err := e.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		want := []string{"Failed to install provider Error while installing it: no hash", "second", "third below"}
		if !reflect.DeepEqual(e.said.errors, want) {
			t.Errorf("in pieces of %d: got %q, want %q", size, e.said.errors, want)
		}
	}
	e := &errorFinder{said: &spoken{}}
	for range 100 {
		_, _ = e.Write([]byte("Error: " + strings.Repeat("x", 10_000) + "\n" + strings.Repeat("y ", 10_000) + "\n"))
	}
	for _, s := range e.said.errors {
		if len(s) > maxErrorText+10 {
			t.Errorf("an error of %d bytes is kept", len(s))
		}
	}
	if len(e.said.errors) != errorsKept {
		t.Errorf("%d errors are kept, want %d", len(e.said.errors), errorsKept)
	}
}
