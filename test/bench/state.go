package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast.dev/holdfast/test/load"
)

const (
	kilobyte = 1 << 10
	mebibyte = 1 << 20
)

// rounds of what is measured several times; the median counts.
const rounds = 3

// cycles measures the state backend with small states: how many lock, read, write and unlock in a second, and what
// one costs.
func cycles(ctx context.Context, b *bench, d database) error {
	return b.serve(ctx, d, "cycles", func(p *load.Process) error {
		// The first requests build pools and caches.
		if _, err := load.Run(ctx, p.Server, load.Cycles{Name: "warm", Workers: 8, Each: 20, Size: 10 * kilobyte}); err != nil {
			return err
		}
		for _, w := range []struct{ workers, each int }{{1, 300}, {8, 60}, {32, 20}} {
			if err := b.rate(ctx, d, p, w.workers, w.each); err != nil {
				return err
			}
		}
		if err := b.reads(ctx, d, p); err != nil {
			return err
		}
		c := load.Contention{Name: "contended", Workers: 32, Rounds: 4, Servers: []func() load.Server{load.At(p.Server)}}
		r, err := load.Contend(ctx, c)
		if err != nil {
			return err
		}
		b.table.set("contend", d.name, r.PerSecond())
		return b.syncs(ctx, d, p)
	})
}

// rate measures cycles per second and processor time per cycle.
func (b *bench) rate(ctx context.Context, d database, p *load.Process, workers, each int) error {
	var perSecond, cost []float64
	for round := range rounds {
		before, err := d.cpu(p.PID())
		if err != nil {
			return err
		}
		r, err := load.Run(ctx, p.Server, load.Cycles{Name: fmt.Sprintf("rate-%d-%d", workers, round), Workers: workers, Each: each, Size: 10 * kilobyte})
		if err != nil {
			return err
		}
		after, err := d.cpu(p.PID())
		if err != nil {
			return err
		}
		perSecond = append(perSecond, r.PerSecond())
		cost = append(cost, milliseconds(after-before)/float64(r.Cycles))
	}
	b.table.set(fmt.Sprintf("cycles-%d", workers), d.name, median(perSecond))
	b.table.set(fmt.Sprintf("cpu-%d", workers), d.name, median(cost))
	return nil
}

// reads measures how often a small state can be read, each client its own.
func (b *bench) reads(ctx context.Context, d database, p *load.Process) error {
	const workers, each = 8, 300
	errs := make([]error, workers)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range workers {
		wg.Go(func() {
			c := load.NewClient(p.URL, p.Token)
			defer c.Close()
			for range each {
				document, err := c.Get(ctx, fmt.Sprintf("rate-8-0-%d", i))
				if err == nil && len(document) < 10*kilobyte {
					err = fmt.Errorf("read %d bytes of a state of 10 KB", len(document))
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	b.table.set("get-8", d.name, workers*each/took.Seconds())
	return nil
}

// large measures one client with large states.
func large(ctx context.Context, b *bench, d database) error {
	return b.serve(ctx, d, "large", func(p *load.Process) error {
		for _, s := range []struct {
			key        string
			size, each int
		}{{"1M", 1_000_000, 30}, {"32M", 32*mebibyte - 64*kilobyte, 5}} {
			r, err := load.Run(ctx, p.Server, load.Cycles{Name: "large-" + s.key, Workers: 1, Each: s.each, Size: s.size, Content: load.Plain})
			if err != nil {
				return err
			}
			b.table.set("post-"+s.key, d.name, milliseconds(r.Quantile("POST", 0.5)))
			b.table.set("read-"+s.key, d.name, milliseconds(r.Quantile("GET", 0.5)))
		}
		return nil
	})
}

// atOnce are saves that happen at the same time, on a server that has done nothing large before.
type atOnce struct {
	saves   int
	size    int
	content load.Content
}

// memory measures what saves cost the server. What one more save costs is the difference between saves at once and a
// single one: the rest of a server's memory is the same in both.
func memory(ctx context.Context, b *bench, d database) error {
	const (
		less = 64 * kilobyte // documents may be a little larger than asked for
		many = 4
	)
	contents := []load.Content{load.Plain, load.NonLatin, load.Incompressible}
	for _, size := range []int{1, 32, 128} { // MiB
		var one, all, more, idle []float64
		for _, content := range contents {
			single, _, err := b.peak(ctx, d, atOnce{1, size*mebibyte - less, content})
			if err != nil {
				return err
			}
			most, before, err := b.peak(ctx, d, atOnce{many, size*mebibyte - less, content})
			if err != nil {
				return err
			}
			one, all = append(one, mib(single)), append(all, mib(most))
			more, idle = append(more, mib(most-single)/(many-1)), append(idle, mib(most-before))
		}
		b.table.set(fmt.Sprintf("more-%d", size), d.name, more...)
		if size > 1 {
			b.table.set(fmt.Sprintf("rss-%d", size), d.name, one...)
			b.table.set(fmt.Sprintf("rss-4-%d", size), d.name, all...)
		}
		if size == 128 {
			b.table.set("idle-128", d.name, idle...)
		}
	}
	return nil
}

// peak is the most memory that a server had resident during the saves, and while what they saved was read, and what it
// had resident before them.
func (b *bench) peak(ctx context.Context, d database, a atOnce) (most, before int64, err error) {
	err = b.serve(ctx, d, fmt.Sprintf("memory-%d-%d-%s", a.saves, a.size/mebibyte, a.content), func(p *load.Process) error {
		warm := load.Cycles{Name: "warm", Workers: 4, Each: 5, Size: 10 * kilobyte}
		if _, err := load.Run(ctx, p.Server, warm); err != nil {
			return err
		}
		if err := load.ResetPeak(p.PID()); err != nil {
			return err
		}
		if before, _, err = load.Memory(p.PID()); err != nil {
			return err
		}
		if _, err := load.Run(ctx, p.Server, load.Cycles{Name: "large", Workers: a.saves, Each: 1, Size: a.size, Content: a.content}); err != nil {
			return err
		}
		_, most, err = load.Memory(p.PID())
		return err
	})
	return most, before, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / mebibyte }

// median of values, which are not empty.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the value that the share q (0 to 1) of values do not pass.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
