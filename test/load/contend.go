package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Contention says what Contend does: workers that want the lock of one state, and each add one to a counter in it
// while they have it.
type Contention struct {
	Name    string
	Workers int
	Rounds  int             // acquisitions of each worker
	Servers []func() Server // where each server is now; workers take them in turn
	Pause   time.Duration   // the longest between two tries for a lock; 10 ms where it is 0
	Late    bool            // repeat unlocks of locks that were released long ago
	Done    func()          // called after each acquisition, by many at once; nil for nobody
}

// At is a server that stays where it is.
func At(s Server) func() Server { return func() Server { return s } }

// Contend drives the contention. Two holders at once, an increment that is lost, an answer that names another holder
// than there can be, or a late unlock that frees a newer lock, end it with an error. Servers may die and come back at
// other addresses meanwhile: what no answer came to, or what is answered 503, is asked again, as the tools do.
func Contend(ctx context.Context, c Contention) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	book := &ledger{sent: map[string]bool{}, released: map[string]int{}}
	var wg sync.WaitGroup
	start := time.Now()
	for i := range c.Workers {
		wg.Go(func() {
			w := &contender{c: c, book: book, caller: NewCaller(c.Servers[i%len(c.Servers)])}
			defer w.caller.Close()
			for round := range c.Rounds {
				if err := w.round(ctx, fmt.Sprintf("%d-%d", i, round)); err != nil {
					cancel(fmt.Errorf("worker %d: %w", i, err))
					return
				}
				if c.Done != nil {
					c.Done()
				}
			}
		})
	}
	wg.Wait()
	r := Result{Cycles: c.Workers * c.Rounds, Elapsed: time.Since(start)}
	if err := context.Cause(ctx); err != nil {
		return r, err
	}
	last := &contender{c: c, book: book, caller: NewCaller(c.Servers[0])}
	defer last.caller.Close()
	n, err := last.counter(ctx)
	if err == nil && n != uint64(r.Cycles) { //nolint:gosec // not negative
		err = fmt.Errorf("after %d increments the state says %d", r.Cycles, n)
	}
	return r, err
}

// ledger is what is known of the lock from outside. A request without an answer says nothing: a lock is held from the
// answer to its request until its release is asked for, and perhaps longer.
type ledger struct {
	mu       sync.Mutex
	holder   string
	count    uint64          // increments that were acknowledged
	sent     map[string]bool // ids that a lock was asked for with
	released map[string]int  // those whose release was answered, and when
	now      int
}

func (l *ledger) ask(id string) (now int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = true
	return l.now
}

// refused checks the holder that a request was told of, which began when ask had given since.
func (l *ledger) refused(held string, since int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, gone := l.released[held]
	switch {
	case !l.sent[held]:
		return fmt.Errorf("refused for the lock %s, which nobody asked for", held)
	case gone && at <= since:
		return fmt.Errorf("refused for the lock %s, which had been released before", held)
	}
	return nil
}

func (l *ledger) take(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != "" {
		return fmt.Errorf("two holders at once: %s and %s", l.holder, id)
	}
	l.holder = id
	return nil
}

func (l *ledger) wrote() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
}

// leave ends the time in which id surely has the lock.
func (l *ledger) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = ""
}

func (l *ledger) gone(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.released[id] = l.now
}

type contender struct {
	c      Contention
	book   *ledger
	caller *Caller
	last   string // the lock that was released before
}

// round waits for the lock, then reads the counter, adds one and releases the lock.
func (w *contender) round(ctx context.Context, id string) error {
	if err := w.acquire(ctx, id); err != nil {
		return err
	}
	if err := w.book.take(id); err != nil {
		return err
	}
	n, err := w.counter(ctx)
	if err != nil {
		return err
	}
	if n != w.book.count { // its holder alone changes it
		return fmt.Errorf("the holder %s reads %d, and %d increments were acknowledged", id, n, w.book.count)
	}
	if w.c.Late && w.last != "" {
		if err := w.late(ctx, id); err != nil {
			return err
		}
	}
	document := Document(n+1, w.c.Name, 0, Plain)
	if err := w.caller.Do(ctx, func(c *Client, _ bool) error { return c.Post(ctx, w.c.Name, id, document) }); err != nil {
		return err
	}
	w.book.wrote()
	w.book.leave()
	w.last = id
	return w.release(ctx, id)
}

// lockPause is between two tries for a lock; tofu pauses for a second and more.
const lockPause = 10 * time.Millisecond

func (w *contender) acquire(ctx context.Context, id string) error {
	pause := lockPause
	for {
		var held string
		since := w.book.ask(id)
		err := w.caller.Do(ctx, func(c *Client, _ bool) (err error) {
			held, err = c.Lock(ctx, w.c.Name, id)
			return err
		})
		if err != nil || held == "" {
			return err
		}
		if err := w.book.refused(held, since); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // no secret
		}
		pause = max(lockPause, min(2*pause, w.c.Pause))
	}
}

func (w *contender) counter(ctx context.Context) (n uint64, err error) {
	var document []byte
	err = w.caller.Do(ctx, func(c *Client, _ bool) (err error) {
		document, err = c.Get(ctx, w.c.Name)
		return err
	})
	if err != nil || document == nil {
		return 0, err
	}
	if n, err = Serial(document); err != nil {
		return 0, err
	}
	if !bytes.Equal(document, Document(n, w.c.Name, 0, Plain)) {
		return 0, fmt.Errorf("the state with serial %d has other bytes than were written", n)
	}
	return n, nil
}

// late repeats the release of a lock that was released long ago while id is held.
func (w *contender) late(ctx context.Context, id string) error {
	var held string
	err := w.caller.Do(ctx, func(c *Client, _ bool) (err error) {
		held, err = c.Unlock(ctx, w.c.Name, w.last)
		return err
	})
	if err == nil && held != id {
		err = fmt.Errorf("a late release of %s while %s is held was answered as if %q were", w.last, id, held)
	}
	return err
}

// release must not be refused, unless an earlier try without an answer has released the lock and another holder has
// taken it since.
func (w *contender) release(ctx context.Context, id string) error {
	err := w.caller.Do(ctx, func(c *Client, again bool) error {
		held, err := c.Unlock(ctx, w.c.Name, id)
		if err == nil && held != "" && !again {
			err = fmt.Errorf("the release of %s is refused, for %s is held", id, held)
		}
		return err
	})
	if err == nil {
		w.book.gone(id)
	}
	return err
}

// retryPause is between two tries of a request without an answer.
const retryPause = 20 * time.Millisecond

// Caller asks a server that may go away and come back elsewhere. It is for one goroutine at a time.
type Caller struct {
	at     func() Server
	where  Server
	client *Client
}

// NewCaller makes a Caller of the server that at finds.
func NewCaller(at func() Server) *Caller { return &Caller{at: at} }

// Close ends the idle connections.
func (c *Caller) Close() {
	if c.client != nil {
		c.client.Close()
	}
}

// Do calls f until it is answered. again is that an earlier try may have done what f asks for.
func (c *Caller) Do(ctx context.Context, f func(client *Client, again bool) error) error {
	for again := false; ; again = true {
		if s := c.at(); c.client == nil || s != c.where {
			c.Close()
			c.where, c.client = s, NewClient(s.URL, s.Token)
		}
		err := f(c.client, again)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !Repeatable(err) {
			return err
		}
		select {
		case <-time.After(retryPause/2 + rand.N(retryPause)): //nolint:gosec // no secret
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Repeatable reports whether err asks for a repeat: no answer, or one that says to try again.
func Repeatable(err error) bool {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Status == http.StatusServiceUnavailable
	}
	_, ok := errors.AsType[*Unanswered](err)
	return ok
}
