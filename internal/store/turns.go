package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrLate says that the turn did not come in time.
var ErrLate = errors.New("the turn was too long in coming")

// Turns passes a turn from update to update, first come, first served, so that those which wait together share a commit.
// Whoever has the turn has the batch, and what is below is called by them alone.
type Turns struct {
	Most   int        // updates to a batch, so that the first one does not wait for ever for the last
	Joined func() int // how many updates ever were in the open batch; 0 where none is open
	Commit func()     // ends the open batch, and tells those who wait for it

	mu      sync.Mutex
	taken   bool // somebody has the turn
	waiting []chan struct{}
}

// Take waits for the turn, which is taken with a nil error only. With a patience above 0 it waits no longer than that, and
// then is ErrLate.
func (t *Turns) Take(ctx context.Context, patience time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.waiting = append(t.waiting, turn)
	t.mu.Unlock()
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	err := ErrLate
	select {
	case <-turn:
		return nil
	case <-late:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	if i := slices.Index(t.waiting, turn); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.mu.Unlock()
		return err
	}
	t.mu.Unlock()
	<-turn // it came at the same moment
	if ctx.Err() == nil {
		return nil
	}
	t.Pass() // or the batch would never be committed
	return context.Cause(ctx)
}

// Pass gives the turn to the next update where the batch has room, else ends the batch first.
func (t *Turns) Pass() {
	for {
		if t.Joined() >= t.Most {
			t.Commit()
		}
		t.mu.Lock()
		if len(t.waiting) > 0 {
			next := t.waiting[0]
			t.waiting = slices.Delete(t.waiting, 0, 1)
			t.mu.Unlock()
			close(next)
			return
		}
		if t.Joined() == 0 {
			t.taken = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		t.Commit()
	}
}

// Waiting is how many wait for the turn.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
