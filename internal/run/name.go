package run

import (
	"regexp"

	"holdfast.dev/holdfast/internal/fault"
)

// MaxNameBytes bounds the names of stacks and components, so that <stack>.<component> is always a state's name.
const MaxNameBytes = 63

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// CheckName refuses what cannot name a stack or a component: no dot, since the first dot of a state's name stands
// between the two. what is the noun for the refusal.
func CheckName(what, s string) error {
	if len(s) > MaxNameBytes || !name.MatchString(s) {
		return fault.New(fault.Invalid, "invalid_name", "That is no name for a %s.", what).
			WithHint("Use 1 to %d letters, digits, _ and -, starting with a letter or digit.", MaxNameBytes)
	}
	return nil
}

// ParseKind refuses anything but the three kinds; "" is Deploy.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case "":
		return Deploy, nil
	case Deploy, Destroy, Preview:
		return k, nil
	}
	return "", fault.New(fault.Invalid, "invalid_kind", "There is no kind of run %q.", s).WithHint("Use deploy, destroy or preview.")
}
