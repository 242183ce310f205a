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
		large   = 32*mebibyte - 64*kilobyte // documents may be a little larger than asked for
		largest = 128*mebibyte - 64*kilobyte
	)
	peaks := map[atOnce]float64{}
	for _, a := range []atOnce{
		{1, large, load.Plain},
		{4, large, load.Plain},
		{4, large, load.NonLatin},
		{4, large, load.Incompressible},
		{1, largest, load.Plain},
		{2, largest, load.Plain},
	} {
		most, err := b.peak(ctx, d, a)
		if err != nil {
			return err
		}
		peaks[a] = mib(most)
	}
	b.table.set("rss-1", d.name, peaks[atOnce{1, large, load.Plain}])
	b.table.set("rss-4", d.name, peaks[atOnce{4, large, load.Plain}])
	b.table.set("rss-non-latin", d.name, peaks[atOnce{4, large, load.NonLatin}])
	b.table.set("rss-incompressible", d.name, peaks[atOnce{4, large, load.Incompressible}])
	b.table.set("rss-128", d.name, peaks[atOnce{1, largest, load.Plain}])
	b.table.set("more-32", d.name, (peaks[atOnce{4, large, load.Plain}]-peaks[atOnce{1, large, load.Plain}])/3)
	b.table.set("more-128", d.name, peaks[atOnce{2, largest, load.Plain}]-peaks[atOnce{1, largest, load.Plain}])
	return nil
}

// peak is the most memory that a server had resident during the saves, and while what they saved was read.
func (b *bench) peak(ctx context.Context, d database, a atOnce) (most int64, err error) {
	err = b.serve(ctx, d, fmt.Sprintf("memory-%d-%d-%s", a.saves, a.size/mebibyte, a.content), func(p *load.Process) error {
		warm := load.Cycles{Name: "warm", Workers: 4, Each: 5, Size: 10 * kilobyte}
		if _, err := load.Run(ctx, p.Server, warm); err != nil {
			return err
		}
		if err := load.ResetPeak(p.PID()); err != nil {
			return err
		}
		if _, err := load.Run(ctx, p.Server, load.Cycles{Name: "large", Workers: a.saves, Each: 1, Size: a.size, Content: a.content}); err != nil {
			return err
		}
		_, most, err = load.Memory(p.PID())
		return err
	})
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
