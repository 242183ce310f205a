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
		for _, w := range []struct{ workers, each int }{{1, 600}, {8, 120}, {32, 40}} {
			if err := b.rate(ctx, d, p, w.workers, w.each); err != nil {
				return err
			}
		}
		if err := b.reads(ctx, d, p); err != nil {
			return err
		}
		c := load.Contention{Name: "contended", Workers: 32, Rounds: 10, Servers: []load.Server{p.Server}}
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
	const workers, each = 8, 500
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
		}{{"1M", 1_000_000, 30}, {"32M", 32*mebibyte - 2*kilobyte, 5}} {
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

// memory measures what saves cost the server, which is started anew for each kind of document.
func memory(ctx context.Context, b *bench, d database) error {
	const size = 32*mebibyte - 64*kilobyte // documents may be a little larger than asked for
	for _, content := range []load.Content{load.Plain, load.NonLatin, load.Incompressible} {
		err := b.serve(ctx, d, "memory-"+string(content), func(p *load.Process) error {
			warm := load.Cycles{Name: "warm", Workers: 4, Each: 5, Size: 10 * kilobyte}
			if _, err := load.Run(ctx, p.Server, warm); err != nil {
				return err
			}
			at, _, err := load.Memory(p.PID())
			if err != nil {
				return err
			}
			one, err := peak(ctx, p, load.Cycles{Name: "one", Workers: 1, Each: 2, Size: size, Content: content})
			if err != nil {
				return err
			}
			four, err := peak(ctx, p, load.Cycles{Name: "four", Workers: 4, Each: 2, Size: size, Content: content})
			if err != nil {
				return err
			}
			b.table.set("rss-"+string(content)+"-4", d.name, mib(four))
			if content != load.Plain {
				return nil
			}
			b.table.set("rss-plain-1", d.name, mib(one))
			b.table.set("grow-4", d.name, mib(four-at)/4)
			largest, err := peak(ctx, p, load.Cycles{Name: "largest", Workers: 1, Each: 1, Size: 128*mebibyte - 64*kilobyte, Content: content})
			b.table.set("grow-1", d.name, mib(largest-at))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// peak is the most memory that the server had resident during some cycles.
func peak(ctx context.Context, p *load.Process, c load.Cycles) (int64, error) {
	if err := load.ResetPeak(p.PID()); err != nil {
		return 0, err
	}
	if _, err := load.Run(ctx, p.Server, c); err != nil {
		return 0, err
	}
	_, most, err := load.Memory(p.PID())
	return most, err
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
