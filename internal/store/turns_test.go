package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// open is a batch that is open until it is committed.
type open struct{ joined, commits int }

func (o *open) turns() *Turns {
	return &Turns{Most: 2, Joined: func() int { return o.joined }, Commit: func() { o.joined = 0; o.commits++ }}
}

// TestContextThatEndsWithTheTurn: an update is given the turn at the moment its context ends. It must pass it on, or
// nobody would ever commit again.
func TestContextThatEndsWithTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &open{}
		turns := o.turns()
		if err := turns.Take(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		o.joined = 1
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- turns.Take(ctx, 0) }()
		synctest.Wait()
		turns.mu.Lock()
		next := turns.waiting[0]
		turns.waiting = nil
		turns.mu.Unlock()
		cancel()
		close(next)
		if err := <-ended; err == nil {
			turns.Pass() // it saw the turn first
		}
		if o.commits != 1 {
			t.Errorf("%d commits, want the open batch's", o.commits)
		}
		if err := turns.Take(t.Context(), time.Minute); err != nil {
			t.Errorf("the update after it: %v", err)
		}
	})
}

func TestTurnsWaitNoLongerThanTheirPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := (&open{}).turns()
		if err := turns.Take(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := turns.Take(t.Context(), time.Second); !errors.Is(err, ErrLate) {
			t.Errorf("got %v, want %v", err, ErrLate)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if err := turns.Take(ctx, time.Second); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause %v", err, gone)
		}
		if n := turns.Waiting(); n != 0 {
			t.Errorf("%d wait, want none of those who gave up", n)
		}
		turns.Pass()
		if err := turns.Take(t.Context(), time.Second); err != nil {
			t.Errorf("after it was passed: %v", err)
		}
	})
}

func TestTurnsGoByOrderAndEndAFullBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &open{}
		turns := o.turns()
		if err := turns.Take(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 5 {
			go func() {
				if err := turns.Take(t.Context(), 0); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				o.joined++
				turns.Pass()
			}()
			synctest.Wait()
		}
		turns.Pass()
		synctest.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v, want first come, first served", order)
			}
		}
		// Two to a batch: after the second, after the fourth, and the last alone.
		if len(order) != 5 || o.commits != 3 || o.joined != 0 {
			t.Errorf("%d had the turn in %d commits, %d left open; want 5 in 3 and none", len(order), o.commits, o.joined)
		}
	})
}
