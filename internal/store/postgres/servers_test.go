package postgres_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/storetest"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

const wait = 30 * time.Second

func receive[T any](t *testing.T, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(wait):
		t.Fatalf("no %s within %s", what, wait)
	}
}

func notify(t *testing.T, s *store.Store, topic string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx engine.Tx) error { return tx.Notify(t.Context(), topic) }); err != nil {
		t.Fatalf("notify: %v", err)
	}
}

// terminate ends the connections that the condition holds for, as an administrator or a failover would.
func terminate(t *testing.T, url, condition string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND `+condition).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("no connection where %s", condition)
	}
}

func TestSignalsReachOtherServers(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, b := openURL(t, url), openURL(t, url)
	signals, stop := b.Subscribe("runs")
	defer stop()
	notify(t, a, "runs")
	receive(t, "signal from the other server", signals)
}

func TestSignalsAreNotLostWithTheirConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, b := openURL(t, url), openURL(t, url)
	signals, stop := b.Subscribe("runs")
	defer stop()
	terminate(t, url, "query LIKE 'LISTEN%'")
	notify(t, a, "runs")
	receive(t, "signal that some may have been missed, or of the one sent meanwhile", signals)
	notify(t, a, "runs")
	receive(t, "signal on the new connection", signals)
}

func TestBrokenConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s := openURL(t, url)
	put := func(key string, before func()) error {
		return s.Update(t.Context(), func(tx engine.Tx) error {
			if err := tx.SetSettingOnce(t.Context(), key+" first", "x"); err != nil {
				return err
			}
			before()
			return tx.SetSettingOnce(t.Context(), key, "x")
		})
	}
	err := put("a", func() { terminate(t, url, "state = 'idle in transaction'") })
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("an update whose connection broke: %v, want unavailable", err)
	}
	if err := put("a", func() {}); err != nil {
		t.Errorf("the same again: %v", err)
	}
}

// TestDeadlockRunsAgain: each of two updates has what the other one wants.
func TestDeadlockRunsAgain(t *testing.T) {
	t.Parallel()
	s := openURL(t, pgtest.New(t))
	now := time.Unix(1_750_000_000, 0)
	if err := s.Update(t.Context(), func(tx engine.Tx) error {
		if err := tx.CreateOrganization(t.Context(), access.Organization{ID: "org_a", Name: "acme", CreatedAt: now}); err != nil {
			return err
		}
		if err := tx.CreateState(t.Context(), state.State{ID: "sta_a", Org: "org_a", Name: "a"}); err != nil {
			return err
		}
		return tx.CreateState(t.Context(), state.State{ID: "sta_b", Org: "org_a", Name: "b"})
	}); err != nil {
		t.Fatal(err)
	}
	var met, all sync.WaitGroup
	met.Add(2)
	runs, errs := [2]int{}, [2]error{}
	for i, order := range [2][2]string{{"a", "b"}, {"b", "a"}} {
		all.Go(func() {
			errs[i] = s.Update(t.Context(), func(tx engine.Tx) error {
				runs[i]++
				if _, err := tx.StateForUpdate(t.Context(), "org_a", order[0]); err != nil {
					return err
				}
				if runs[i] == 1 {
					met.Done()
					met.Wait()
				}
				_, err := tx.StateForUpdate(t.Context(), "org_a", order[1])
				return err
			})
		})
	}
	all.Wait()
	if errs[0] != nil || errs[1] != nil || runs[0]+runs[1] < 3 { // more on a slow machine, where they may meet again
		t.Errorf("errors %v after %v runs; want none, after one of them ran again", errs, runs)
	}
}

func TestServersThatOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	storetest.OpenTogether(t, func(ctx context.Context) (*store.Store, error) {
		return postgres.Open(ctx, postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	openURL(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if fault.Code(err) != "schema_newer" {
		t.Errorf("open = %v, %v; want it refused as a newer schema", s, err)
	}
}

func TestErrorsHaveNoPassword(t *testing.T) {
	t.Parallel()
	for what, url := range map[string]string{
		"a wrong port":     "postgres://u:hunter2@127.0.0.1:99999/x",
		"nobody there":     "postgres://u:hunter2@127.0.0.1:1/x",
		"a wrong setting":  "postgres://u:hunter2@127.0.0.1:1/x?sslmode=hunter2",
		"what is no URL":   "postgres://u:hunter2@[::1/x",
		"a broken escape":  "postgres://u:hunter2%zz@127.0.0.1:1/x",
		"words, not a URL": "host=127.0.0.1 port=1 password=hunter2 user='",
	} {
		_, err := postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error without the password", what, err)
		}
	}
}
