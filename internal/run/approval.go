package run

import (
	"fmt"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// The risks of a plan.
const (
	RiskNone = "none"
	RiskLow  = "low"
	RiskHigh = "high"
)

// Why a run went on without a person's approval.
const (
	ReasonNoChanges = "no changes"
	ReasonPreview   = "a preview applies nothing"
	ReasonNever     = "the stack asks for no approval"
	ReasonHarmless  = "nothing is destroyed or replaced"
)

// ChangesReason, RiskReason and so on say why a person has to approve.
const (
	ReasonAlways    = "every change of this run needs approval"
	ReasonHighRisk  = "something would be destroyed or replaced"
	ReasonUnplanned = "not everything could be planned"
)

var strictness = []Policy{Never, HighRisk, Always} // never changed

// Strictest is a run's policy: the stack's, or the requested one where that is stricter. Unprocessable where the
// request is laxer than the stack or no policy at all; "" requests nothing.
func Strictest(stack, requested Policy) (Policy, error) {
	if requested == "" {
		return stack, nil
	}
	have, want := slices.Index(strictness, stack), slices.Index(strictness, requested)
	switch {
	case want < 0:
		return "", fault.New(fault.Unprocessable, "invalid_approval", "There is no approval policy %q.", requested).
			WithHint("Use always, high_risk or never.")
	case want < have:
		return "", fault.New(fault.Unprocessable, "approval_too_lax",
			"The stack asks for approval %s; a run may ask for more, not for %s.", stack, requested).
			WithHint("Leave the approval out, or change the stack.")
	}
	return requested, nil
}

// StackPolicy is the policy of a stack whose settings say asked, "" for the default. Production can't say never.
func StackPolicy(asked Policy, production bool) (Policy, error) {
	switch {
	case asked == "" && production:
		return HighRisk, nil
	case asked == "":
		return Never, nil
	case !slices.Contains(strictness, asked):
		return "", fault.New(fault.Unprocessable, "invalid_approval", "There is no approval policy %q.", asked).
			WithHint("Use always, high_risk or never.")
	case asked == Never && production:
		return "", fault.New(fault.Unprocessable, "production_needs_approval", "A production stack cannot go without approval.").
			WithHint("Use high_risk or always.")
	}
	return asked, nil
}

// Planned is what the rules of approval look at.
type Planned struct {
	Kind       Kind
	Policy     Policy
	Production bool
	Changes    bool
	Risk       string
	Unplanned  []string // components that could not be planned
}

// NeedsApproval says whether a person has to approve, and why or why not. A component that could not be planned
// counts as high risk, and production never goes without approval of high risk, whatever the policy says.
func (p Planned) NeedsApproval() (bool, string) {
	risky := p.Risk == RiskHigh || len(p.Unplanned) > 0
	switch {
	case p.Kind == Preview:
		return false, ReasonPreview
	case !p.Changes && len(p.Unplanned) == 0:
		return false, ReasonNoChanges
	case p.Policy == Always:
		return true, ReasonAlways
	case p.Policy == Never && !p.Production:
		return false, ReasonNever
	case !risky && (p.Risk == RiskLow || p.Risk == RiskNone):
		return false, ReasonHarmless
	case len(p.Unplanned) > 0:
		return true, fmt.Sprintf("%s: %s", ReasonUnplanned, strings.Join(p.Unplanned, ", "))
	}
	return true, ReasonHighRisk
}

// HighestRisk is the risk of a run of these components: the highest of theirs. One without a plan, or with a risk
// that is none of the three, is high.
func HighestRisk(cs []Component) string {
	order := []string{RiskNone, RiskLow, RiskHigh}
	highest := 0
	for _, c := range cs {
		at := len(order) - 1
		if c.Plan != nil {
			if i := slices.Index(order, c.Plan.Risk); i >= 0 {
				at = i
			}
		}
		highest = max(highest, at)
	}
	return order[highest]
}
