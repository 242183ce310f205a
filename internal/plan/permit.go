package plan

import (
	"fmt"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// Permits reports whether an approval of approved covers actual: every object that actual changes is among those of
// approved, with the same actions. Doing less is permitted, since an object may have been dealt with in between. An
// errored or incomplete plan is never permitted. When one of the views lists only a part of its changes, both must
// be equal in all of them.
func Permits(approved, actual *View) error {
	switch {
	case actual.Errored || actual.Incomplete:
		return fault.New(fault.Conflict, "plan_incomplete", "The plan is not whole, so it cannot be applied.").
			WithHint("Correct what planning failed on and plan again.")
	case approved.ActionsDigest == actual.ActionsDigest:
		return nil
	case approved.LeftOut+actual.LeftOut > 0:
		return refused("its changes are not the ones that were approved")
	}
	allowed := map[string]bool{}
	for _, c := range approved.Changes {
		allowed[c.deed()] = true
	}
	var more []string
	for _, c := range actual.Changes {
		if c.Class != Read && !allowed[c.deed()] {
			more = append(more, fmt.Sprintf("%s %s", c.Class, c.Address))
		}
	}
	if len(more) == 0 {
		return nil
	}
	return refused("it would also " + capped(more, ", "))
}

func refused(why string) error {
	return fault.New(fault.Conflict, "plan_exceeds_approval", "The plan does more than was approved: %s.", why).
		WithHint("Nothing was applied. Start a new run and approve its plan.")
}

func (c *Change) deed() string {
	return strings.Join(slices.Concat([]string{c.Address, c.Deposed, c.PreviousAddress, c.Importing}, c.Actions), "\x00")
}
