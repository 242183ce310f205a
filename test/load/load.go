package load

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Server is what is driven.
type Server struct {
	URL   string
	Token string // an operator's or administrator's
}

// Cycles says what Run does: workers that each lock, read, write and unlock a state of their own.
type Cycles struct {
	Name    string // prefix of the states' names
	Workers int
	Each    int // cycles of each worker
	Size    int // bytes of a document
	Posts   int // saves under one lock; 1 where it is 0
	Content Content
}

// Result is what was measured.
type Result struct {
	Cycles  int
	Elapsed time.Duration
	Times   map[string][]time.Duration // of each verb, sorted
}

// PerSecond is cycles per second.
func (r Result) PerSecond() float64 { return float64(r.Cycles) / r.Elapsed.Seconds() }

// Quantile is the time of verb that the share q (0 to 1) of requests did not pass.
func (r Result) Quantile(verb string, q float64) time.Duration {
	times := r.Times[verb]
	if len(times) == 0 {
		return 0
	}
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// Run drives the cycles. An answer that is not as it must be ends it with an error.
func Run(ctx context.Context, s Server, c Cycles) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]map[string][]time.Duration, c.Workers)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range c.Workers {
		wg.Go(func() {
			w := &worker{Client: NewClient(s.URL, s.Token), name: fmt.Sprintf("%s-%d", c.Name, i), c: c, times: map[string][]time.Duration{}}
			defer w.Close()
			if err := w.run(ctx); err != nil {
				cancel(fmt.Errorf("worker %d: %w", i, err))
			}
			results[i] = w.times
		})
	}
	wg.Wait()
	r := Result{Cycles: c.Workers * c.Each, Elapsed: time.Since(start), Times: map[string][]time.Duration{}}
	for _, times := range results {
		for verb, t := range times {
			r.Times[verb] = append(r.Times[verb], t...)
		}
	}
	for _, t := range r.Times {
		slices.Sort(t)
	}
	return r, context.Cause(ctx)
}

type worker struct {
	*Client
	name  string
	c     Cycles
	times map[string][]time.Duration
	last  []byte // what was written last
}

func (w *worker) run(ctx context.Context) error {
	serial := uint64(0)
	posts := max(w.c.Posts, 1)
	documents := make([][]byte, 2) // making them must not count
	for cycle := range w.c.Each {
		for i := range documents[:min(posts, 2)] {
			documents[i] = Document(serial+uint64(i)+1, w.name, w.c.Size, w.c.Content)
		}
		id := fmt.Sprintf("%s-%d", w.name, cycle)
		if err := w.timed("LOCK", func() error { return w.alone(w.Lock(ctx, w.name, id)) }); err != nil {
			return err
		}
		if err := w.timed("GET", func() error { return w.check(ctx) }); err != nil {
			return err
		}
		for i := range posts {
			serial++
			if i >= len(documents) {
				documents[i%2] = Document(serial, w.name, w.c.Size, w.c.Content)
			}
			w.last = documents[i%2]
			if err := w.timed("POST", func() error { return w.Post(ctx, w.name, id, w.last) }); err != nil {
				return err
			}
		}
		if err := w.timed("UNLOCK", func() error { return w.alone(w.Unlock(ctx, w.name, id)) }); err != nil {
			return err
		}
	}
	return w.check(ctx)
}

// alone makes a failure of a lock that somebody else has.
func (w *worker) alone(held string, err error) error {
	if err == nil && held != "" {
		err = fmt.Errorf("%s is locked by %s, and nobody else works on it", w.name, held)
	}
	return err
}

func (w *worker) check(ctx context.Context) error {
	got, err := w.Get(ctx, w.name)
	if err != nil {
		return err
	}
	if w.last != nil && !bytes.Equal(got, w.last) {
		return fmt.Errorf("GET %s gave %d bytes that are not the %d written last", w.name, len(got), len(w.last))
	}
	return nil
}

func (w *worker) timed(verb string, f func() error) error {
	start := time.Now()
	err := f()
	w.times[verb] = append(w.times[verb], time.Since(start))
	return err
}
