package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/jobs"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/store/postgres"
	"holdfast.dev/holdfast/internal/store/sqlite"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

const wait = time.Minute

var quiet = slog.New(slog.DiscardHandler)

// recorder tells of each sweep and housekeeping on its channel.
type recorder struct {
	sweeps, keeps chan struct{}
	err           error
	block         chan struct{} // a sweep waits for it, where it is set
	ended         chan error    // how a blocked sweep ended
}

func newRecorder() *recorder {
	return &recorder{sweeps: make(chan struct{}, 1000), keeps: make(chan struct{}, 1000), ended: make(chan error, 10)}
}

func (r *recorder) Sweep(ctx context.Context) error {
	r.sweeps <- struct{}{}
	if r.block != nil {
		select {
		case <-r.block:
			r.ended <- nil
		case <-ctx.Done():
			r.ended <- context.Cause(ctx)
		}
	}
	return r.err
}

func (r *recorder) Housekeep(context.Context) error {
	r.keeps <- struct{}{}
	return nil
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(wait):
		t.Fatalf("no %s within %s", what, wait)
		panic("unreachable")
	}
}

// start runs jobs on s, and gives what ends them and waits.
func start(t *testing.T, s *store.Store, r *recorder) (stop func()) {
	t.Helper()
	j, err := jobs.New(t.Context(), jobs.Options{
		Database: s, Sweeper: r, Housekeeper: r, Logger: quiet,
		SweepEvery: time.Second, HousekeepEvery: time.Second,
	})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(t, "end of the jobs", done); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func onBoth(t *testing.T, test func(t *testing.T, open func() *store.Store)) {
	closing := func(t *testing.T, s *store.Store, err error) *store.Store {
		t.Helper()
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return s
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "holdfast.db")
		test(t, func() *store.Store {
			s, err := sqlite.Open(t.Context(), path)
			return closing(t, s, err)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.New(t)
		test(t, func() *store.Store {
			s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Logger: quiet})
			return closing(t, s, err)
		})
	})
}

func TestJobsRunAgainAndAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *store.Store) {
		r := newRecorder()
		r.err = errors.New("boom") // which the next one does not mind
		start(t, open(), r)
		for range 2 {
			receive(t, "sweep", r.sweeps)
			receive(t, "housekeeping", r.keeps)
		}
	})
}

// TestNextServerTakesOver also makes the tables a second time, where they are.
func TestNextServerTakesOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *store.Store) {
		first, second := newRecorder(), newRecorder()
		stop := start(t, open(), first)
		receive(t, "sweep", first.sweeps)
		stop()
		start(t, open(), second)
		receive(t, "sweep of the second server", second.sweeps)
	})
}

func TestStopWaitsForARunningJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *store.Store) {
		r := newRecorder()
		r.block = make(chan struct{})
		stop := start(t, open(), r)
		receive(t, "sweep", r.sweeps)
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		close(r.block)
		if err := receive(t, "end of the sweep", r.ended); err != nil {
			t.Errorf("the sweep was ended by %v, want it to end by itself", err)
		}
		receive(t, "stop", stopped)
	})
}

// TestServersThatStartTogether make the tables at once.
func TestServersThatStartTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *store.Store) {
		errs := make(chan error, 4)
		for range cap(errs) {
			s := open()
			go func() {
				r := newRecorder()
				_, err := jobs.New(context.WithoutCancel(t.Context()), jobs.Options{Database: s, Sweeper: r, Housekeeper: r, Logger: quiet})
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := receive(t, "server", errs); err != nil {
				t.Errorf("new: %v", err)
			}
		}
	})
}

// TestStoreWritesBesideJobs: on SQLite they share a file, and must not keep each other from it.
func TestStoreWritesBesideJobs(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *store.Store) {
		r := newRecorder()
		s := open()
		start(t, s, r)
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for n := range 500 {
					key := time.Now().String() + string(rune('a'+n%26))
					if err := s.Update(t.Context(), func(tx engine.Tx) error { return tx.SetSettingOnce(t.Context(), key, "x") }); err != nil {
						t.Errorf("update: %v", err)
						return
					}
				}
			})
		}
		writers.Wait()
		receive(t, "sweep", r.sweeps)
		receive(t, "sweep", r.sweeps)
	})
}
