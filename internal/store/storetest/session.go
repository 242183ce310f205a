package storetest

import (
	"context"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/store"
)

func sessions(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	a := access.Session{Hash: "aa", User: w.user.ID, Org: w.org.ID, CreatedAt: now, ExpiresAt: after(10)}
	b := access.Session{Hash: "bb", User: w.user.ID, Org: w.org.ID, CreatedAt: now, ExpiresAt: after(20)}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateSession(ctx, a); err != nil {
			return err
		}
		return tx.CreateSession(ctx, b)
	})
	read := func(hash string) (access.Session, access.UserRecord, error) {
		var session access.Session
		var user access.UserRecord
		err := s.View(t.Context(), func(tx engine.Tx) (err error) {
			session, user, _, err = tx.Session(t.Context(), hash)
			return err
		})
		return session, user, err
	}
	session, user, err := read("aa")
	if err != nil {
		t.Fatalf("session: %v", err)
	}
	same(t, "session", session, a)
	same(t, "its user", user, w.user)

	update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.SweepSessions(ctx, after(15)) })
	_, _, err = read("aa")
	wantKind(t, "a swept session", err, fault.NotFound)
	if _, _, err = read("bb"); err != nil {
		t.Errorf("a session that has not ended, after a sweep: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteSession(ctx, "bb") })
	}
	_, _, err = read("bb")
	wantKind(t, "a deleted session", err, fault.NotFound)
}

func signInLinks(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	l := access.SignInLink{Hash: "aa", User: w.user.ID, ExpiresAt: after(10)}
	late := access.SignInLink{Hash: "bb", User: w.user.ID, ExpiresAt: after(1)}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateSignInLink(ctx, late); err != nil {
			return err
		}
		return tx.CreateSignInLink(ctx, l)
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.UseSignInLink(ctx, "aa", after(2))
		l.UsedAt = after(2)
		same(t, "link", got, l)
		return err
	})
	for what, hash := range map[string]string{"a used link": "aa", "an ended link": "bb", "no link": "cc"} {
		refused(t, s, fault.NotFound, what, func(ctx context.Context, tx engine.Tx) error {
			_, err := tx.UseSignInLink(ctx, hash, after(2))
			return err
		})
	}
}

func oneSignIn(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateSignInLink(ctx, access.SignInLink{Hash: "aa", User: w.user.ID, ExpiresAt: after(10)})
	})
	won := 0
	for _, err := range together(t, 20, func(int) error {
		return s.Update(t.Context(), func(tx engine.Tx) error {
			_, err := tx.UseSignInLink(t.Context(), "aa", now)
			return err
		})
	}) {
		if err == nil {
			won++
		} else {
			wantKind(t, "a lost race", err, fault.NotFound)
		}
	}
	same(t, "sign-ins with one link", won, 1)
}
