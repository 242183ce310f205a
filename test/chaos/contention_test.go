package chaos_test

import (
	"context"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/test/load"
)

// Promise 2: many clients of several users want one lock, over two servers on one database, of which now one and now
// the other is killed. There are never two holders, no increment is lost, a conflict always names the holder, and a
// release that comes late frees nobody else's lock (load.Contend checks that with every answer).
func TestContentionOverTwoServers(t *testing.T) {
	workers, rounds, kills := sized(200, 12), sized(200, 6), sized(40, 4)
	database := pgtest.New(t)
	a, b := start(t, t.TempDir(), database), start(t, t.TempDir(), database)
	c := load.Contention{Name: "counter", Workers: workers, Rounds: rounds, Pause: time.Duration(workers) * 8 * time.Millisecond, Late: true}
	for i, token := range a.operators(t, 8) {
		c.Servers = append(c.Servers, []*mortal{a, b}[i%2].as(token))
	}
	acquired := make(chan struct{}, workers*rounds)
	c.Done = func() { acquired <- struct{}{} }

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan load.Result, 1)
	go func() {
		r, err := load.Contend(ctx, c)
		cancel(err)
		ended <- r
	}()
	for i := range kills {
		await(ctx, t, acquired, workers*rounds/(kills+1))
		jitter()
		[]*mortal{a, b}[i%2].kill(t)
	}
	r := <-ended
	if err := context.Cause(ctx); err != nil && err != context.Canceled { //nolint:errorlint // the cause itself
		t.Fatal(err)
	}
	for _, m := range []*mortal{a, b} {
		m.quiet(t)
	}
	a.verified(t, "")
	s, err := b.client(t).State(t.Context(), c.Name)
	if err != nil || s.Lock != nil || s.Version != int64(r.Cycles) {
		t.Errorf("at the end: %+v, %v; want no lock, and a version of each of %d acquisitions", s, err, r.Cycles)
	}
	t.Logf("%d clients x %d rounds = %d acquisitions over two servers in %s (%.0f/s), %d kills, 0 violations",
		workers, rounds, r.Cycles, r.Elapsed.Round(time.Millisecond), r.PerSecond(), kills)
}
