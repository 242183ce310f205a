package chaos_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

// Promise 3, S18: the server is killed again and again while states are written. Whatever was acknowledged is there
// afterwards, byte for byte; what was in flight is there whole or not at all; a lock is held by who took it.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { killServer(t, "") })
	t.Run("postgres", func(t *testing.T) { killServer(t, pgtest.New(t)) })
}

func killServer(t *testing.T, database string, more ...string) {
	kills := sized(100, 5)
	m := start(t, t.TempDir(), database, more...)
	s := put(t, m)
	anchor := ""
	for i := range kills {
		await(s.ctx, t, s.acked, 20+rand.IntN(80)) //nolint:gosec // no secret
		jitter()
		m.kill(t)
		s.check(t, m)
		if i%10 == 9 {
			anchor = m.verified(t, anchor)
		}
	}
	took := s.took()
	saved := s.end(t, m)
	m.quiet(t)
	m.verified(t, anchor)
	t.Logf("%d kills of the server in %s, %d saves acknowledged (%.0f/s, the restarts included), all there", kills, took.Round(time.Millisecond), saved, float64(saved)/took.Seconds())
}

// The database is killed instead; the server stays, and works again by itself.
func TestKilledDatabaseLosesNothing(t *testing.T) {
	crashes := sized(10, 2)
	database, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
	})
	m := start(t, t.TempDir(), database.URL)
	s := put(t, m)
	for range crashes {
		await(s.ctx, t, s.acked, 20+rand.IntN(80)) //nolint:gosec // no secret
		jitter()
		if err := database.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(s.ctx, t, s.acked, writers)
		s.check(t, m)
	}
	took := s.took()
	saved := s.end(t, m)
	m.verified(t, "")
	t.Logf("%d crashes of PostgreSQL in %s, %d saves acknowledged, all there", crashes, took.Round(time.Millisecond), saved)
}

func problemCode(err error) string { return fault.Code(err) }
