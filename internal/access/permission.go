package access

import (
	"maps"
	"slices"

	"holdfast.dev/holdfast/internal/fault"
)

// Disabled stands in an allocation for nobody at all. It is no role: no user has it.
const Disabled Role = "disabled"

// Allocation is what the administrators of an organization have changed: the lowest role of permissions that are
// allocatable, or Disabled. A permission that is not in it is as it comes; nil changes nothing.
type Allocation map[Permission]Role

// allocatable are the permissions that an administrator may give to another role. What an administrator administers
// with is not among them, so that no allocation can shut the last one out.
var allocatable = map[Permission]bool{StateRead: true, StateWrite: true, StateManage: true}

// Allocatable reports whether an administrator may give p to another role.
func Allocatable(p Permission) bool { return allocatable[p] }

// Lowest is the lowest role that has p in the organization, Disabled where nobody may have it, or "" where it is no
// role's. What stands in the allocation and is neither a role nor Disabled gives p to nobody.
func (l Allocation) Lowest(p Permission) Role {
	if r, ok := l[p]; ok && allocatable[p] {
		return r
	}
	return lowest[p]
}

// With is the allocation with p given to r.
func (l Allocation) With(p Permission, r Role) Allocation {
	out := maps.Clone(l)
	if out == nil {
		out = Allocation{}
	}
	out[p] = r
	return out
}

// ParseAllocated refuses what is no role and not "disabled".
func ParseAllocated(s string) (Role, error) {
	if Role(s) == Disabled {
		return Disabled, nil
	}
	r, err := ParseRole(s)
	if err != nil {
		return "", fault.New(fault.Invalid, "invalid_role", "A permission cannot be allocated to %q.", s).
			WithHint("Use viewer, operator, admin or disabled.")
	}
	return r, nil
}

// ParseAllocatable refuses a permission that is not there, and one that is of the same role everywhere.
func ParseAllocatable(s string) (Permission, error) {
	p := Permission(s)
	switch {
	case allocatable[p]:
		return p, nil
	case lowest[p] != "":
		return "", fault.New(fault.Unprocessable, "permission_fixed", "The permission %s cannot be allocated: it belongs to the role %s in every organization.", p, lowest[p]).
			WithHint("tf_state:read, tf_state:write and tf_state:manage can be allocated.")
	}
	return "", fault.New(fault.NotFound, "permission_not_found", "There is no permission %q.", s).
		WithHint("GET /api/permissions lists them.")
}

// RolePermissions lists the permissions that roles have, in order of name.
func RolePermissions() []Permission { return slices.Sorted(maps.Keys(lowest)) }
