package worker

import (
	"errors"
	"testing"

	"holdfast.dev/holdfast/internal/link"
)

// TestConclude has the two ways a server's no is heard: as the answer to the question before the apply, and as an order
// to end, whichever comes first.
func TestConclude(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		whole   bool
		outcome string
		class   string
	}{
		"an answer":               {err: cancelled{link.ReasonAsked}, outcome: link.Cancelled, class: link.ClassCancelled},
		"an answer, and leftover": {err: errors.Join(cancelled{link.ReasonAsked}, errors.New("a process does not end")), outcome: link.Cancelled, class: link.ClassCancelled},
		"something else":          {err: errors.New("no room"), outcome: link.Failed, class: link.ClassInfrastructure},
		"a refusal":               {err: fail(link.ClassRefused, "no"), outcome: link.Failed, class: link.ClassRefused},
		"after the whole apply":   {err: cancelled{link.ReasonAsked}, whole: true, outcome: link.Failed, class: link.ClassInfrastructure},
		"nothing":                 {outcome: link.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			a := &attempt{}
			a.applied.whole = c.whole
			a.conclude(t.Context(), c.err)
			if a.result.Outcome != c.outcome || a.result.Class != c.class {
				t.Errorf("got %s, %q, want %s, %q", a.result.Outcome, a.result.Class, c.outcome, c.class)
			}
		})
	}
}
