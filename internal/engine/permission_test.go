package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/run"
)

// TestVerbsFollowTheAllocation asks the engine itself, with no route before it.
func TestVerbsFollowTheAllocation(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		s.save(t, s.user("ann", access.Operator), "net", "A", doc(1, "l", "x"))
		for _, verb := range []struct {
			name  string
			needs []access.Permission // one of them is enough
			do    func(ctx context.Context, a access.Actor) error
		}{
			{"read", []access.Permission{access.StateRead}, func(ctx context.Context, a access.Actor) error {
				c, err := s.ReadState(ctx, a, "net")
				if err == nil {
					err = c.Body.Close()
				}
				return err
			}},
			{"download", []access.Permission{access.StateRead}, func(ctx context.Context, a access.Actor) error {
				c, err := s.StateVersionContent(ctx, a, "net", 1)
				if err == nil {
					err = c.Body.Close()
				}
				return err
			}},
			{"write", []access.Permission{access.StateWrite}, func(ctx context.Context, a access.Actor) error {
				_, err := s.WriteState(ctx, a, "net", write("", doc(1, "l", "x")))
				return err
			}},
			{"import", []access.Permission{access.StateWrite}, func(ctx context.Context, a access.Actor) error {
				_, err := s.ImportState(ctx, a, "net", engine.StateImport{StateWrite: write("", doc(1, "l", "x"))})
				return err
			}},
			{"rollback", []access.Permission{access.StateWrite}, func(ctx context.Context, a access.Actor) error {
				_, err := s.RollbackState(ctx, a, "net", 9)
				return err
			}},
			{"accept", []access.Permission{access.StateWrite}, func(ctx context.Context, a access.Actor) error {
				_, err := s.AcceptVersion(ctx, a, "net", 9)
				return err
			}},
			{"lock", []access.Permission{access.StateWrite}, func(ctx context.Context, a access.Actor) error {
				return s.LockState(ctx, a, "net", lockInfo("B"))
			}},
			{"unlock", []access.Permission{access.StateWrite, access.StateManage}, func(ctx context.Context, a access.Actor) error {
				return s.UnlockState(ctx, a, "net", engine.UnlockRequest{ID: "B"})
			}},
			{"force unlock", []access.Permission{access.StateManage}, func(ctx context.Context, a access.Actor) error {
				_, err := s.ForceUnlock(ctx, a, "net", engine.UnlockRequest{})
				return err
			}},
			{"restore", []access.Permission{access.StateManage}, func(ctx context.Context, a access.Actor) error {
				_, err := s.RestoreState(ctx, a, "net")
				return err
			}},
			{"delete", []access.Permission{access.StateManage}, func(ctx context.Context, a access.Actor) error {
				return s.DeleteState(ctx, a, "none", false)
			}},
		} {
			for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin} {
				for _, p := range []access.Permission{access.StateRead, access.StateWrite, access.StateManage} {
					for _, l := range []access.Role{access.Viewer, access.Operator, access.Admin, access.Disabled, "king"} {
						a := s.user(string(role), role)
						a.Allocation = access.Allocation{p: l}
						may := slices.ContainsFunc(verb.needs, func(need access.Permission) bool {
							least := access.Lowest(need)
							if need == p {
								least = l
							}
							return least != access.Disabled && least != "king" && role.AtLeast(least)
						})
						if err := verb.do(t.Context(), a); fault.Is(err, fault.Forbidden) == may {
							t.Errorf("%s as %s with %s allocated to %s: %v, want it allowed %t", verb.name, role, p, l, err, may)
						}
					}
				}
			}
		}
	})
}

// TestForceUnlockFollowsManage releases what another holds: by tofu force-unlock's request, by whoever has
// tf_state:manage, with or without tf_state:write; never by a step.
func TestForceUnlockFollowsManage(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		holder, other := s.user("ann", access.Operator), s.user("ben", access.Operator)
		w := s.newWork(t, "net", false)
		s.mustLock(t, holder, "net", "A")
		unlock := func(a access.Actor, l access.Allocation) error {
			a.Allocation = l
			return s.UnlockState(t.Context(), a, "net", engine.UnlockRequest{ID: "A"})
		}
		_, step := w.attempt(t, run.TaskPlan)
		for what, err := range map[string]error{
			"by default":                  unlock(other, nil),
			"a step, manage to viewers":   unlock(step, access.Allocation{access.StateManage: access.Viewer}),
			"write to viewers":            unlock(other, access.Allocation{access.StateWrite: access.Viewer}),
			"manage disabled":             unlock(other, access.Allocation{access.StateManage: access.Disabled}),
			"an administrator, disabled":  unlock(s.user("eve", access.Admin), access.Allocation{access.StateManage: access.Disabled}),
			"the holder, without write":   unlock(holder, access.Allocation{access.StateWrite: access.Admin}),
			"a step, its write disabled":  unlock(step, access.Allocation{access.StateWrite: access.Disabled}),
			"a step, its write to admins": unlock(step, access.Allocation{access.StateWrite: access.Admin}),
		} {
			if err == nil || s.view(t, "net").Lock == nil {
				t.Fatalf("%s: %v, lock %+v, want a refusal and the lock as it was", what, err, s.view(t, "net").Lock)
			}
		}
		if err := unlock(other, access.Allocation{access.StateManage: access.Operator, access.StateWrite: access.Disabled}); err != nil {
			t.Errorf("manage to operators: %v", err)
		}
		if v := s.view(t, "net"); v.Lock != nil || s.audited(t, "net") != "force_unlock" {
			t.Errorf("lock %+v, audited %q, want it released by force", v.Lock, s.audited(t, "net"))
		}
	})
}

// TestAllocationHoldsOnEveryServer changes a permission at one server and asks another: for a token, a session and the
// token of a step.
func TestAllocationHoldsOnEveryServer(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		other := s.server(t)
		admin := access.UserRecord{ID: id.New(id.User, s.now()), Org: s.org, Name: "ada", Role: access.Admin, CreatedAt: s.now()}
		attempt, _ := s.newWork(t, "net", false).attempt(t, run.TaskPlan)
		personal, step := access.NewToken(access.PersonalPrefix), access.NewToken(access.AttemptPrefix)
		s.update(t, func(ctx context.Context, tx engine.Tx) error {
			if err := tx.CreateUser(ctx, admin); err != nil {
				return err
			}
			if err := tx.CreateToken(ctx, access.Token{ID: id.New(id.Token, s.now()), Org: s.org, Name: "a", Hash: access.Hash(personal).Hex(), User: admin.ID, CreatedAt: s.now()}); err != nil {
				return err
			}
			return tx.CreateToken(ctx, access.Token{ID: id.New(id.Token, s.now()), Org: s.org, Name: "b", Hash: access.Hash(step).Hex(), AttemptID: attempt.ID, State: "sta_1", CreatedAt: s.now(), ExpiresAt: s.now().Add(time.Hour)})
		})
		session, err := s.SignIn(t.Context(), personal, redact.Secret{}, "req")
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, people, steps bool) {
			t.Helper()
			for kind, actor := range map[string]func(ctx context.Context, secret redact.Secret) (access.Actor, error){
				"token": other.Authenticate, "step": other.Authenticate, "session": other.SessionActor,
			} {
				secret, want := map[string]redact.Secret{"token": personal, "step": step, "session": session.Value}[kind], people
				if kind == "step" {
					want = steps
				}
				a, err := actor(t.Context(), secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Allow(access.StateWrite); (err == nil) != want {
					t.Errorf("%s: %s: %v, want allowed %t", what, kind, err, want)
				}
			}
		}
		allocate := func(role access.Role) {
			t.Helper()
			if _, err := s.AllocatePermission(t.Context(), s.user("ada", access.Admin), "tf_state:write", string(role)); err != nil {
				t.Fatal(err)
			}
		}
		check("by default", true, true)
		allocate(access.Admin)
		check("allocated to administrators", true, false)
		allocate(access.Disabled)
		check("disabled", false, false)
		allocate(access.Viewer)
		check("allocated to viewers", true, true)
	})
}
