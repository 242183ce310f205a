package storetest

import (
	"context"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/store"
)

func newToken(w world, hash string) access.Token {
	return access.Token{ID: id.New(id.Token, now), Org: w.org.ID, Name: "laptop", Hash: hash, CreatedAt: now}
}

func credentials(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	_, task := w.withTask(t, s)
	a := w.newAttempt(task, 1)
	a.Report, a.Message = []byte(`{"ok": true}`), "done"
	personal, machine, attempt := newToken(w, "personal"), newToken(w, "machine"), newToken(w, "attempt")
	personal.User, personal.ExpiresAt = w.user.ID, after(100)
	machine.AgentID = w.agent.ID
	attempt.AttemptID, attempt.State, attempt.ReadOnly = a.ID, "sta_1", true
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateAttempt(ctx, a); err != nil {
			return err
		}
		for _, k := range []access.Token{personal, machine, attempt} {
			if err := tx.CreateToken(ctx, k); err != nil {
				return err
			}
		}
		return nil
	})
	wantCredential := func(hash string, want engine.Credential) {
		t.Helper()
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.Credential(ctx, hash)
			same(t, hash, got, want)
			return err
		})
	}
	person := engine.Owner{ID: w.user.ID, Name: w.user.Name, Role: w.user.Role, PlatformAdmin: w.user.PlatformAdmin, DisabledAt: w.user.DisabledAt}
	agent := engine.Owner{ID: w.agent.ID, Name: w.agent.Name, Account: w.account.ID}
	work := engine.Owner{ID: a.ID, Name: a.AgentName, Run: a.Run, Task: a.Task}
	wantCredential("personal", engine.Credential{Token: personal, Owner: person})
	wantCredential("machine", engine.Credential{Token: machine, Owner: agent})
	wantCredential("attempt", engine.Credential{Token: attempt, Owner: work})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		_, err := tx.Credential(ctx, "none")
		wantKind(t, "no token", err, fault.NotFound)
		_, err = tx.Token(ctx, "org_other", personal.ID)
		wantKind(t, "a token of another organization", err, fault.NotFound)
		got, err := tx.Token(ctx, w.org.ID, personal.ID)
		same(t, "token", got, personal)
		return err
	})

	refused(t, s, fault.Conflict, "a taken hash", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateToken(ctx, newToken(w, "personal"))
	})
	refused(t, s, fault.NotFound, "revoking no token", func(ctx context.Context, tx engine.Tx) error {
		return tx.RevokeToken(ctx, "tok_none", now)
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		for _, at := range []time.Time{after(5), after(4)} {
			if err := tx.TouchToken(ctx, personal.ID, at); err != nil {
				return err
			}
		}
		for _, at := range []time.Time{after(6), after(7)} {
			if err := tx.RevokeToken(ctx, personal.ID, at); err != nil {
				return err
			}
		}
		return tx.EndTokens(ctx, w.agent.ID, "", after(8))
	})
	personal.LastUsedAt, personal.RevokedAt, machine.RevokedAt = after(5), after(6), after(8)
	wantCredential("personal", engine.Credential{Token: personal, Owner: person})
	wantCredential("machine", engine.Credential{Token: machine, Owner: agent})
	wantCredential("attempt", engine.Credential{Token: attempt, Owner: work})
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.EndTokens(ctx, "", a.ID, after(9)) })
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.EndTokens(ctx, "", "", after(10)) })
	attempt.RevokedAt = after(9)
	wantCredential("attempt", engine.Credential{Token: attempt, Owner: work})
}

func tokens(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	other := access.UserRecord{ID: id.New(id.User, now), Org: w.org.ID, Name: "ci", CreatedAt: now}
	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateUser(ctx, other) })
	var mine, personal []string
	for i, user := range []string{w.user.ID, other.ID, w.user.ID, "", w.user.ID} {
		k := newToken(w, id.New("hash", now))
		k.ID, k.User = id.New(id.Token, after(i)), user
		if user == "" {
			k.AgentID = w.agent.ID
		} else {
			personal = append([]string{k.ID}, personal...)
		}
		if user == w.user.ID {
			mine = append([]string{k.ID}, mine...)
		}
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateToken(ctx, k) })
	}
	for user, want := range map[string][]string{w.user.ID: mine, "": personal, "usr_none": {}} {
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got := all(t, 2, func(p engine.Page) ([]access.Token, string, error) { return tx.Tokens(ctx, w.org.ID, user, p) })
			same(t, "tokens of "+user, names(got, func(k access.Token) string { return k.ID }), want)
			return nil
		})
	}
}
