package access_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

func TestAllowByRole(t *testing.T) {
	all := []access.Role{access.Viewer, access.Operator, access.Admin}
	for p, lowest := range map[access.Permission]access.Role{
		access.StateList: access.Viewer, access.StateRead: access.Operator, access.StateWrite: access.Operator,
		access.StateManage: access.Admin, access.RunStart: access.Operator, access.RunApprove: access.Operator,
		access.AgentWrite: access.Admin, access.UserManage: access.Admin, access.AuditRead: access.Admin,
	} {
		for _, r := range all {
			err := access.Actor{Kind: access.User, Role: r}.Allow(p)
			if want := r.AtLeast(lowest); (err == nil) != want {
				t.Errorf("role %s, permission %s: Allow = %v, want allowed %t", r, p, err, want)
			}
			if err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("role %s, permission %s: kind of %v, want forbidden", r, p, err)
			}
		}
	}
}

func TestAllowByKind(t *testing.T) {
	for _, c := range []struct {
		actor access.Actor
		p     access.Permission
		want  bool
	}{
		{access.Actor{Kind: access.User}, access.StateList, false},
		{access.Actor{Kind: access.User, Role: "root"}, access.StateList, false},
		{access.Actor{Kind: access.User, Role: access.Admin}, access.AgentWork, false},
		{access.Actor{Kind: access.User, Role: access.Admin}, access.PlatformManage, false},
		{access.Actor{Kind: access.User, Role: access.Admin, PlatformAdmin: true}, access.PlatformManage, true},
		{access.Actor{Kind: access.User, Role: access.Admin}, "tf_state:unheard_of", false},
		{access.Actor{Kind: access.Attempt}, access.StateWrite, true},
		{access.Actor{Kind: access.Attempt}, access.StateManage, false},
		{access.Actor{Kind: access.Attempt}, access.RunRead, false},
		{access.Actor{Kind: access.Attempt, Role: access.Admin}, access.StateManage, false},
		{access.Actor{Kind: access.Agent}, access.AgentWork, true},
		{access.Actor{Kind: access.Agent, Role: access.Admin}, access.StateRead, false},
		{access.Actor{Kind: access.System}, access.StateManage, true},
		{access.Actor{}, access.Public, true},
		{access.Actor{}, access.StateList, false},
	} {
		if err := c.actor.Allow(c.p); (err == nil) != c.want {
			t.Errorf("%+v.Allow(%s) = %v, want allowed %t", c.actor, c.p, err, c.want)
		}
	}
}

func TestAllocation(t *testing.T) {
	user := func(r access.Role, l access.Allocation) access.Actor {
		return access.Actor{Kind: access.User, Role: r, Allocation: l}
	}
	step := func(l access.Allocation) access.Actor { return access.Actor{Kind: access.Attempt, Allocation: l} }
	for _, c := range []struct {
		actor access.Actor
		p     access.Permission
		want  bool
	}{
		{user(access.Viewer, access.Allocation{access.StateRead: access.Viewer}), access.StateRead, true},
		{user(access.Viewer, access.Allocation{access.StateRead: access.Viewer}), access.StateWrite, false},
		{user(access.Operator, access.Allocation{access.StateWrite: access.Admin}), access.StateWrite, false},
		{user(access.Admin, access.Allocation{access.StateWrite: access.Disabled}), access.StateWrite, false},
		{user(access.Disabled, access.Allocation{access.StateWrite: access.Disabled}), access.StateWrite, false},
		{user(access.Admin, access.Allocation{access.StateWrite: "king"}), access.StateWrite, false},
		{user("king", access.Allocation{access.StateWrite: "king"}), access.StateWrite, false},
		{user(access.Admin, access.Allocation{access.StateWrite: ""}), access.StateWrite, false},
		// What is not allocatable stays as it is, whatever a row says: nobody is shut out, and nobody let in.
		{user(access.Admin, access.Allocation{access.UserManage: access.Disabled}), access.UserManage, true},
		{user(access.Viewer, access.Allocation{access.UserManage: access.Viewer}), access.UserManage, false},
		{user(access.Admin, access.Allocation{access.PlatformManage: access.Viewer, access.AgentWork: access.Viewer}), access.PlatformManage, false},
		{step(access.Allocation{access.StateManage: access.Viewer}), access.StateManage, false},
		{step(access.Allocation{access.StateWrite: access.Viewer}), access.StateWrite, true},
		{step(access.Allocation{access.StateWrite: access.Admin}), access.StateWrite, false},
		{step(access.Allocation{access.StateWrite: access.Admin}), access.StateRead, true},
		{step(access.Allocation{access.StateRead: access.Disabled}), access.StateRead, false},
	} {
		err := c.actor.Allow(c.p)
		if (err == nil) != c.want {
			t.Errorf("%+v.Allow(%s) = %v, want allowed %t", c.actor, c.p, err, c.want)
		}
		if err != nil && fault.From(err).Hint == "" {
			t.Errorf("%+v.Allow(%s) = %v says not what to do", c.actor, c.p, err)
		}
	}
	one := access.Allocation{access.StateRead: access.Viewer}
	if two := one.With(access.StateWrite, access.Admin); len(one) != 1 || two.Lowest(access.StateWrite) != access.Admin || two.Lowest(access.StateRead) != access.Viewer {
		t.Errorf("With changed %v or gave %v", one, two)
	}
}

// TestDocumentedPermissions compares the table for users with the one that decides.
func TestDocumentedPermissions(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(cells[1], " `") {
			got = append(got, strings.Trim(cells[1], " `")+" "+strings.TrimSpace(cells[3])+" "+strings.TrimSpace(cells[4]))
		}
	}
	slices.Sort(got)
	var want []string
	for _, p := range access.RolePermissions() {
		allocatable := map[bool]string{true: "yes", false: "no"}[access.Allocatable(p)]
		want = append(want, string(p)+" "+string(access.Lowest(p))+" "+allocatable)
	}
	if !slices.Equal(got, want) {
		t.Errorf("documented\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTokensAreWellFormedAndDiffer(t *testing.T) {
	for _, prefix := range []string{access.PersonalPrefix, access.AttemptPrefix, access.AgentPrefix} {
		a, b := access.NewToken(prefix), access.NewToken(prefix)
		if a.Equal(b) {
			t.Fatalf("two tokens are equal")
		}
		text := a.Reveal()
		if !strings.HasPrefix(text, prefix) || !access.WellFormed(a) {
			t.Errorf("token of prefix %s is not well formed", prefix)
		}
		for i := range text {
			c := byte('A')
			if text[i] == c {
				c = 'B'
			}
			if wrong := redact.NewSecret(text[:i] + string(c) + text[i+1:]); access.WellFormed(wrong) {
				t.Errorf("a token with character %d changed is still well formed", i)
			}
		}
	}
}

func TestUsable(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		token access.Token
		want  bool
	}{
		"plain":      {access.Token{}, true},
		"ends later": {access.Token{ExpiresAt: now.Add(time.Second)}, true},
		"ends now":   {access.Token{ExpiresAt: now}, false},
		"revoked":    {access.Token{RevokedAt: now.Add(time.Hour)}, false},
	} {
		if got := c.token.Usable(now); got != c.want {
			t.Errorf("%s: Usable = %t, want %t", name, got, c.want)
		}
	}
}
