package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/test/load"
)

// Promise 3, S18: the server is killed again and again while states are written. Whatever was acknowledged is there
// afterwards, byte for byte; what was in flight is there whole or not at all; a lock is held by who took it.
func TestKilledServerLosesNothing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "holdfast.dev/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	t.Run("sqlite", func(t *testing.T) { killAndCheck(t, program, "") })
	t.Run("postgres", func(t *testing.T) { killAndCheck(t, program, pgtest.New(t)) })
}

const (
	kills        = 6
	ackedBetween = 60 // answers between two kills
	killWriters  = 4
)

func killAndCheck(t *testing.T, program, database string) {
	dir := t.TempDir()
	p := startProcess(t, program, dir, database)
	h := &killed{acked: make(chan struct{}, 10000)}
	h.server.Store(&p.Server)
	ctx, stop := context.WithCancel(t.Context())
	writers := make([]*writer, killWriters)
	var wg sync.WaitGroup
	for i := range writers {
		// Small ones are stored with their row, large ones in chunks of their own transactions.
		size := 2 << 10
		if i%2 == 1 {
			size = 700 << 10
		}
		writers[i] = &writer{h: h, name: fmt.Sprint("state-", i), size: size}
		wg.Go(func() {
			if err := writers[i].run(ctx); err != nil {
				t.Errorf("%s: %v", writers[i].name, err)
				stop()
			}
		})
	}
	for range kills {
		for range ackedBetween {
			select {
			case <-h.acked:
			case <-ctx.Done():
				t.Fatal("a writer gave up")
			}
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		p = startProcess(t, program, dir, database)
		h.server.Store(&p.Server)
		for _, w := range writers {
			w.check(t, p.Server)
		}
	}
	stop()
	wg.Wait()
	for _, w := range writers {
		w.check(t, p.Server)
	}
}

func startProcess(t *testing.T, program, dir, database string) *load.Process {
	t.Helper()
	p, err := load.Start(t.Context(), program, dir, database, filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// killed is a server that comes back at other addresses.
type killed struct {
	server atomic.Pointer[load.Server]
	acked  chan struct{}
}

// writer saves one state as a tool would that repeats what got no answer.
type writer struct {
	h    *killed
	name string
	size int

	acked, sent atomic.Uint64 // serials
}

func (w *writer) run(ctx context.Context) error {
	for serial := uint64(1); ctx.Err() == nil; serial++ {
		id := fmt.Sprint(w.name, "-", serial)
		document := w.document(serial)
		w.sent.Store(serial)
		err := w.persist(ctx, func(c *load.Client) error {
			held, err := c.Lock(ctx, w.name, id)
			if err == nil && held != "" {
				err = fmt.Errorf("locked by %s, which nobody holds any more", held)
			}
			return err
		})
		if err == nil {
			err = w.persist(ctx, func(c *load.Client) error { return c.Post(ctx, w.name, id, document) })
		}
		if err == nil && ctx.Err() == nil {
			w.acked.Store(serial)
			err = w.persist(ctx, func(c *load.Client) error { return c.Unlock(ctx, w.name, id) })
		}
		if err != nil {
			return err
		}
		select {
		case w.h.acked <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return nil
}

func (w *writer) document(serial uint64) []byte {
	return load.Document(serial, w.name, w.size, load.Incompressible)
}

// persist repeats what no answer came to; an answer that is wrong is an error.
func (w *writer) persist(ctx context.Context, f func(c *load.Client) error) error {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		s := w.h.server.Load()
		c := load.NewClient(s.URL, s.Token)
		err := f(c)
		c.Close()
		var lost *url.Error
		switch {
		case err == nil, ctx.Err() != nil:
			return nil
		case !errors.As(err, &lost) && !bytes.Contains([]byte(err.Error()), []byte("EOF")):
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// check reads the state: what was acknowledged last before, or anything sent since, whole.
func (w *writer) check(t *testing.T, s load.Server) {
	t.Helper()
	acked := w.acked.Load()
	c := load.NewClient(s.URL, s.Token)
	defer c.Close()
	got, err := c.Get(t.Context(), w.name)
	if err != nil {
		t.Fatalf("%s after a kill: %v", w.name, err)
	}
	var serial uint64
	if got != nil {
		if _, err := fmt.Sscanf(string(got[:min(len(got), 200)]), `{"version":4,"terraform_version":"1.12.6","serial":%d,`, &serial); err != nil {
			t.Fatalf("%s after a kill is %.100q: %v", w.name, got, err)
		}
	}
	if serial < acked || serial > w.sent.Load() {
		t.Fatalf("%s after a kill has serial %d; %d was acknowledged, %d sent", w.name, serial, acked, w.sent.Load())
	}
	if got != nil && !bytes.Equal(got, w.document(serial)) {
		t.Fatalf("%s after a kill has other bytes than were sent with serial %d", w.name, serial)
	}
}
