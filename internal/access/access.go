// Package access says who acts and what they may do: the actor a verified credential stands for, the roles of an
// organization, and the table from each permission to the lowest role that has it.
package access

import (
	"maps"
	"slices"

	"holdfast.dev/holdfast/internal/fault"
)

// Kind is what sort of credential an actor came with.
type Kind string

// The kinds of actor.
const (
	User    Kind = "user"    // a person or a service user, by a personal token or a session
	Attempt Kind = "attempt" // one execution of a task, by its attempt token: its own state only
	Agent   Kind = "agent"   // an agent, by its token: agent routes only
	System  Kind = "system"  // Holdfast itself: sweeps, the engine's own steps
)

// Role is a user's standing in the organization. The zero Role may nothing.
type Role string

// The roles, each including those before it.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

var ranks = map[Role]int{Viewer: 1, Operator: 2, Admin: 3}

// ParseRole refuses anything but the three roles.
func ParseRole(s string) (Role, error) {
	if ranks[Role(s)] == 0 {
		return "", fault.New(fault.Invalid, "invalid_role", "There is no role %q.", s).WithHint("Use viewer, operator or admin.")
	}
	return Role(s), nil
}

// AtLeast reports whether r includes least. What is no role includes nothing, and nothing includes it.
func (r Role) AtLeast(least Role) bool { return ranks[least] > 0 && ranks[r] >= ranks[least] }

// Permission names one thing that can be done.
type Permission string

// The permissions. Every route declares one.
const (
	Public Permission = "public" // no credential needed: health, sign-in, the API's own description

	StateList   Permission = "tf_state:list"   // see that states exist, their versions, locks and resources
	StateRead   Permission = "tf_state:read"   // read a state's bytes
	StateWrite  Permission = "tf_state:write"  // lock, write, unlock one's own lock, import, roll back
	StateManage Permission = "tf_state:manage" // force-unlock, delete, restore

	StackRead  Permission = "stack:read"
	StackWrite Permission = "stack:write"
	RunRead    Permission = "run:read"
	RunStart   Permission = "run:start"   // start, cancel
	RunApprove Permission = "run:approve" // approve, reject

	AccountRead  Permission = "account:read"
	AccountWrite Permission = "account:write"
	AgentRead    Permission = "agent:read"
	AgentWrite   Permission = "agent:write"
	AgentWork    Permission = "agent:work" // what an agent's token may do; no user has it

	TokenOwn       Permission = "token:own"       // one's own tokens and sessions
	UserRead       Permission = "user:read"       // list users
	UserManage     Permission = "user:manage"     // add users, change roles, make service users' tokens
	PermissionRead Permission = "permission:read" // see what each role may do
	AuditRead      Permission = "audit:read"
	PlatformManage Permission = "platform:manage" // organizations; platform administrators only
)

// lowest is the lowest role that has each permission, where no Allocation says otherwise. A permission that is not here
// is nobody's.
var lowest = map[Permission]Role{
	StateList: Viewer, StateRead: Operator, StateWrite: Operator, StateManage: Admin,
	StackRead: Viewer, StackWrite: Operator,
	RunRead: Viewer, RunStart: Operator, RunApprove: Operator,
	AccountRead: Viewer, AccountWrite: Admin, AgentRead: Viewer, AgentWrite: Admin,
	TokenOwn: Viewer, UserRead: Admin, UserManage: Admin, AuditRead: Admin,
	PermissionRead: Viewer,
}

// Lowest is the lowest role that has p where no Allocation says otherwise, or "" where no role has it.
func Lowest(p Permission) Role { return lowest[p] }

// Actor is who acts. It comes from a verified credential and from nothing else; identity in a body, header or
// query is never looked at.
type Actor struct {
	Kind  Kind
	Org   string // the one organization the credential is bound to
	ID    string // the user's, attempt's or agent's id
	Name  string // for people: shown in holders, approvals and the audit log
	Token string // id of the token or session used; "" for System
	Role  Role   // of a User; an Attempt acts as Operator on its own state

	Allocation Allocation // of the organization, as it was when the credential was read

	PlatformAdmin bool // may manage organizations

	// Of an Attempt:
	Run, Task, State string // State is the id of the only state it may touch
	ReadOnly         bool   // a preview or drift attempt
	TokenDead        bool   // the token has ended but is still recognised, to quarantine a last save
	// Of an Agent:
	Account string // id of the account it serves

	RequestID string // of the HTTP request, for the audit record
}

// Allow is nil when the actor has p in its organization. It is the only place that decides.
func (a Actor) Allow(p Permission) error {
	switch {
	case p == Public, a.Kind == System:
		return nil
	case p == PlatformManage && a.Kind == User && a.PlatformAdmin:
		return nil
	case p == AgentWork && a.Kind == Agent:
		return nil
	case a.Kind == Attempt && (p == StateRead || p == StateWrite) && Operator.AtLeast(a.Allocation.Lowest(p)):
		return nil // on its own state; the engine checks which
	case a.Kind == User && a.Role.AtLeast(a.Allocation.Lowest(p)):
		return nil
	}
	return a.refusal(p)
}

func (a Actor) refusal(p Permission) error {
	l := a.Allocation.Lowest(p)
	step := a.Kind == Attempt && (p == StateRead || p == StateWrite)
	switch {
	case !step && (a.Kind != User || l == ""):
		return fault.New(fault.Forbidden, "forbidden", "This needs the permission %s, which a token of kind %s does not have.", p, a.Kind).
			WithHint("Use a credential of the kind this route is for.")
	case ranks[l] == 0:
		return fault.New(fault.Forbidden, "forbidden", "This needs the permission %s, which is disabled in this organization.", p).
			WithHint("An administrator of the organization can allocate it to a role again (holdfast permission set %s %s).", p, lowest[p])
	case step:
		return fault.New(fault.Forbidden, "forbidden", "This needs the permission %s, which is allocated to the role %s here; the steps of a run act as %s.", p, l, Operator).
			WithHint("An administrator of the organization can allocate it to %s (holdfast permission set %s %s).", Operator, p, Operator)
	}
	return fault.New(fault.Forbidden, "forbidden", "This needs the permission %s, which the role %s does not have.", p, a.Role).
		WithHint("Ask an administrator of the organization for the role %s.", l)
}

// Permissions lists every permission that somebody can have, in order of name.
func Permissions() []Permission {
	all := append(slices.Collect(maps.Keys(lowest)), AgentWork, PlatformManage)
	slices.Sort(all)
	return all
}
