package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/state"
)

// Bench measures what the cost of a request is made of: an update of one small row, and a lock, read, write and
// unlock of a state with 10 KB, each step a transaction of its own as the state protocol has it.
func Bench(b *testing.B, open Open) {
	for _, workers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("Update/%d", workers), func(b *testing.B) {
			s := open(b)
			var n atomic.Int64
			each(b, workers, func(ctx context.Context, _ int) error {
				key := fmt.Sprint(n.Add(1))
				return s.Update(ctx, func(tx engine.Tx) error { return tx.SetSettingOnce(ctx, key, "x") })
			})
		})
	}
	for _, workers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("View/%d", workers), func(b *testing.B) {
			s := open(b)
			w := newWorld(b, s)
			update(b, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, w.newState("net")) })
			each(b, workers, func(ctx context.Context, _ int) error {
				return s.View(ctx, func(tx engine.Tx) error {
					_, err := tx.State(ctx, w.org.ID, "net")
					return err
				})
			})
		})
	}
	for _, workers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("Cycle/%d", workers), func(b *testing.B) {
			s := open(b)
			c := newCycle(b, s, workers)
			each(b, workers, c.run)
		})
	}
}

// BenchSearch measures a search over the resources of 10,000 states with 30 each: for what is there often, for a name
// that one of them has, for a type, and for what is nowhere, which looks at all of them.
func BenchSearch(b *testing.B, open Open) {
	s := open(b)
	w := newWorld(b, s)
	const states, together = 10_000, 250
	for first := 0; first < states; first += together {
		update(b, s, func(ctx context.Context, tx engine.Tx) error {
			for n := first; n < first+together; n++ {
				st := w.newState(fmt.Sprintf("stack-%d.main", n))
				if err := tx.CreateState(ctx, st); err != nil {
					return err
				}
				var rs []state.Resource
				for i := range 30 {
					rs = append(rs, newResource(fmt.Sprintf("aws_type_%02d.resource_%d", i, n)))
				}
				if err := tx.SetResources(ctx, st.Org, st.ID, rs, state.List{Hash: "x"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for name, f := range map[string]engine.ResourceFilter{
		"often": {Query: "resource"}, "once": {Query: "type_29.resource_9999"}, "type": {Query: "_9999", Type: "aws_type_07"}, "nowhere": {Query: "nowhere"},
	} {
		f.Org = w.org.ID
		b.Run(name, func(b *testing.B) {
			each(b, 1, func(ctx context.Context, _ int) error {
				return s.View(ctx, func(tx engine.Tx) error {
					_, _, err := tx.Resources(ctx, f, engine.Page{Limit: 50})
					return err
				})
			})
		})
	}
}

// each runs fn b.N times, by workers at once.
func each(b *testing.B, workers int, fn func(ctx context.Context, worker int) error) {
	b.Helper()
	ctx := b.Context()
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	before := processorTime(b)
	b.ResetTimer()
	for worker := range workers {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				if err := fn(ctx, worker); err != nil {
					b.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// processorTime is what this process has used: unlike wall time it says something on a busy machine.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
