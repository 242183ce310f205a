package engine_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

// TestBootstrapOfManyServersAtOnce: all of them start, and one has set the installation up.
func TestBootstrapOfManyServersAtOnce(t *testing.T) {
	db, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.New(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	chain, err := audit.NewChain(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	token := redact.NewSecret("the-first-administrator-of-the-tests")
	errs := make([]error, 8)
	var starting sync.WaitGroup
	gate := make(chan struct{})
	for i := range errs {
		e := engine.New(engine.Config{Store: db, Chain: chain, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		starting.Go(func() {
			<-gate
			_, errs[i] = e.Bootstrap(context.WithoutCancel(t.Context()), token)
		})
	}
	close(gate)
	starting.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("server %d: Bootstrap = %v", i, err)
		}
	}
	var orgs []access.Organization
	var users []access.UserRecord
	err = db.View(t.Context(), func(tx engine.Tx) (err error) {
		if orgs, _, err = tx.Organizations(t.Context(), engine.Page{Limit: 10}); err == nil && len(orgs) > 0 {
			users, _, err = tx.Users(t.Context(), orgs[0].ID, engine.Page{Limit: 10})
		}
		return err
	})
	if err != nil || len(orgs) != 1 || len(users) != 1 {
		t.Errorf("%d organizations, %d users, %v, want one of each", len(orgs), len(users), err)
	}
}
