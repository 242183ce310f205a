package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
)

// noise does not compress, so its sealed size is about its own.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b)
	return b
}

func (s *states) seal(t *testing.T, plain []byte) engine.Object {
	t.Helper()
	o, err := s.SealObject(t.Context(), s.org, "state", bytes.NewReader(plain), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (s *states) attach(t *testing.T, o engine.Object) engine.Object {
	t.Helper()
	s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
	var back engine.Object
	err := s.store.View(t.Context(), func(tx engine.Tx) (err error) {
		back, err = tx.Object(t.Context(), o.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// staged is how many chunks and blobs are staged, not attached, and not given up.
func (s *states) staged(t *testing.T) (n int) {
	t.Helper()
	errRollBack := errors.New("only looking")
	err := s.store.Update(t.Context(), func(tx engine.Tx) (err error) {
		if n, err = tx.SweepStaged(t.Context(), s.now().Add(time.Hour), 10000); err != nil {
			return err
		}
		doomed := func(before time.Time) []engine.Object {
			if err != nil {
				return nil
			}
			later := s.now().Add(2 * time.Hour)
			if err = tx.DoomBlobs(t.Context(), before, later, 10000); err != nil {
				return nil
			}
			var all []engine.Object
			all, err = tx.DoomedBlobs(t.Context(), later.Add(time.Hour), "", 10000)
			return all
		}
		n -= len(doomed(time.Time{}))
		n += len(doomed(s.now().Add(time.Hour)))
		if err != nil {
			return err
		}
		return errRollBack
	})
	if !errors.Is(err, errRollBack) {
		t.Fatal(err)
	}
	return n
}

func TestObjectComesBack(t *testing.T) {
	onEachPlace(t, func(t *testing.T, s *states) {
		const chunk = 256 << 10
		for _, n := range []int{0, 1, 10 << 10, 60 << 10, 64 << 10, 66 << 10, chunk - 100, chunk, chunk + 100, 2*chunk + 7, 9<<20 + 1} {
			plain := noise(n)
			var seen bytes.Buffer
			o, err := s.SealObject(t.Context(), s.org, "state", iotest.HalfReader(bytes.NewReader(plain)), 64<<20, &seen)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if !bytes.Equal(seen.Bytes(), plain) {
				t.Errorf("%d bytes: the other writer saw %d", n, seen.Len())
			}
			elsewhere := o.Chunks > 0
			if s.blobs != nil {
				elsewhere = o.Place == engine.PlaceBlob
			}
			if small := o.Sealed <= 64<<10; small == elsewhere || small != (len(o.Inline) > 0) {
				t.Errorf("%d bytes: %d sealed, %d chunks, place %q, %d inline", n, o.Sealed, o.Chunks, o.Place, len(o.Inline))
			}
			r, err := s.OpenObject(t.Context(), s.attach(t, o))
			if err != nil {
				t.Fatalf("%d bytes: open: %v", n, err)
			}
			if got := readAll(t, r); got != string(plain) {
				t.Errorf("%d bytes: %d came back, or others", n, len(got))
			}
		}
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks are left staged", n)
		}
	})
}

// Where sealed bytes are cut, to the byte: a row's worth stands in the row, and a chunk's worth is one chunk.
func TestObjectAtTheCuts(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		const row, chunk = 64 << 10, 256 << 10
		for n, chunks := range map[int]int{0: 0, row: 0, row + 1: 1, chunk: 1, chunk + 1: 2, 2 * chunk: 2} {
			sealed := noise(n)
			o, err := s.StageObject(t.Context(), fmt.Sprint("wri_", n), sealed)
			if err != nil || o.Chunks != chunks || o.Sealed != int64(n) || (len(o.Inline) == n) != (chunks == 0) {
				t.Fatalf("%d bytes: %d in %d chunks and %d in the row, %v; want %d chunks", n, o.Sealed, o.Chunks, len(o.Inline), err, chunks)
			}
			back, err := s.SealedBytes(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if readAll(t, back) != string(sealed) {
				t.Errorf("of %d sealed bytes others came back", n)
			}
		}
		small := s.seal(t, noise(100))
		if cap(small.Inline) >= row {
			t.Errorf("%d bytes are held for the %d of a small object", cap(small.Inline), len(small.Inline))
		}
		// A state's objects are named by their write; what was never staged costs no transaction to drop.
		plan, err := s.SealObject(t.Context(), s.org, "plan", strings.NewReader("x"), 1)
		if err != nil || !strings.HasPrefix(small.ID, "wri_") || !strings.HasPrefix(plan.ID, "obj_") {
			t.Errorf("the ids %q and %q, %v", small.ID, plan.ID, err)
		}
		db := &crashing{Store: s.store, count: func() int { return 0 }}
		s.serverOn(t, db).DiscardObject(t.Context(), small, fault.New(fault.Locked, "x", "x"))
		if log := s.log.String(); strings.Contains(log, "left to the sweep") {
			t.Errorf("a small object that was refused took a transaction: %s", log)
		}
	})
}

// S12: the limit is the limit, to the byte, and what was staged before it was passed is gone.
func TestS12ObjectLimit(t *testing.T) {
	onEachPlace(t, func(t *testing.T, s *states) {
		plain := noise(1 << 20)
		if _, err := s.SealObject(t.Context(), s.org, "state", bytes.NewReader(plain), 1<<20); err != nil {
			t.Errorf("exactly the limit: %v", err)
		}
		before := s.staged(t)
		if _, err := s.SealObject(t.Context(), s.org, "state", bytes.NewReader(plain), 1<<20-1); !fault.Is(err, fault.TooLarge) {
			t.Errorf("one byte over the limit: %v, want too large", err)
		}
		if after := s.staged(t); after != before {
			t.Errorf("%d chunks are left of what was refused", after-before)
		}
	})
}

// Whatever ends the stream early leaves nothing staged, and the error is the one that ended it.
func TestObjectThatFails(t *testing.T) {
	onEachPlace(t, func(t *testing.T, s *states) {
		broken := errors.New("the client went away")
		body := func() io.Reader { return io.MultiReader(bytes.NewReader(noise(1<<20)), iotest.ErrReader(broken)) }
		if _, err := s.SealObject(t.Context(), s.org, "state", body(), 64<<20); !errors.Is(err, broken) {
			t.Errorf("a broken body: %v, want %v", err, broken)
		}
		for _, cut := range []error{io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}} {
			_, err := s.SealObject(t.Context(), s.org, "state", io.MultiReader(bytes.NewReader(noise(1<<20)), iotest.ErrReader(cut)), 64<<20)
			wantRefused(t, "a body cut by "+cut.Error(), err, "body_incomplete")
		}
		refused := fault.New(fault.Invalid, "no", "No.")
		_, err := s.SealObject(t.Context(), s.org, "state", bytes.NewReader(noise(1<<20)), 64<<20, &refusingWriter{after: 900 << 10, err: refused})
		if fault.Code(err) != "no" {
			t.Errorf("a refusing writer: %v, want its refusal", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := io.MultiReader(bytes.NewReader(noise(600<<10)), readerFunc(func([]byte) (int, error) { cancel(); return 0, ctx.Err() }))
		if _, err := s.SealObject(ctx, s.org, "state", r, 64<<20); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled context: %v, want context.Canceled", err)
		}
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks are left staged", n)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type refusingWriter struct {
	after int
	err   error
}

func (w *refusingWriter) Write(p []byte) (int, error) {
	if w.after -= len(p); w.after < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// An object that may have been attached is never dropped: whoever refers to it would have lost its bytes.
func TestObjectOfUnknownFateStays(t *testing.T) {
	onEachPlace(t, func(t *testing.T, s *states) {
		for _, kind := range []fault.Kind{fault.Unavailable, fault.Internal, fault.NoSpace} {
			o := s.attach(t, s.seal(t, noise(300<<10)))
			s.DiscardObject(t.Context(), o, fault.New(kind, "x", "x"))
			r, err := s.OpenObject(t.Context(), o)
			if err != nil {
				t.Fatalf("after %s: %v", kind, err)
			}
			readAll(t, r)
		}
		o := s.seal(t, noise(300<<10))
		if s.staged(t) == 0 {
			t.Fatal("nothing is staged: the test tests nothing")
		}
		s.DiscardObject(t.Context(), o, fault.New(fault.Locked, "x", "x"))
		if n := s.staged(t); n != 0 {
			t.Errorf("%d chunks are left of what was refused", n)
		}
	})
}

// S18: whatever is wrong with the stored bytes is an error and never a shorter or another document.
func TestS18DamagedObject(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		small, large := s.attach(t, s.seal(t, []byte(doc(1, "l", "v")))), s.attach(t, s.seal(t, noise(9<<20)))
		other := s.attach(t, s.seal(t, []byte(doc(1, "l", "w"))))
		for name, c := range map[string]struct {
			o    engine.Object
			with func(o *engine.Object)
			code string
		}{
			"a bit":                  {small, func(o *engine.Object) { o.Inline = bytes.Clone(o.Inline); o.Inline[len(o.Inline)/2] ^= 1 }, "sealed_damaged"},
			"cut":                    {small, func(o *engine.Object) { o.Inline = o.Inline[:len(o.Inline)-1] }, "sealed_damaged"},
			"empty":                  {small, func(o *engine.Object) { o.Inline = nil }, "sealed_damaged"},
			"another object's bytes": {small, func(o *engine.Object) { o.Inline = other.Inline }, "sealed_damaged"},
			"another object's key":   {small, func(o *engine.Object) { o.Wrapped = other.Wrapped }, "sealed_damaged"},
			"another id":             {small, func(o *engine.Object) { o.ID = other.ID }, "sealed_damaged"},
			"another organization":   {small, func(o *engine.Object) { o.Org = "org_2" }, "sealed_damaged"},
			"another sum":            {small, func(o *engine.Object) { o.SHA256 = other.SHA256 }, "sealed_damaged"},
			"a smaller size":         {small, func(o *engine.Object) { o.Size-- }, "sealed_damaged"},
			"a larger size":          {small, func(o *engine.Object) { o.Size++ }, "sealed_damaged"},
			"a key that is not here": {small, func(o *engine.Object) { o.Key.Name = "00000000" }, "key_missing"},
			"fewer chunks":           {large, func(o *engine.Object) { o.Chunks-- }, "sealed_damaged"},
			"more chunks":            {large, func(o *engine.Object) { o.Chunks++ }, "object_missing"},
			"large, another sum":     {large, func(o *engine.Object) { o.SHA256 = small.SHA256 }, "sealed_damaged"},
			"chunks of nobody":       {large, func(o *engine.Object) { o.ID = "wri_x" }, "sealed_damaged"},
		} {
			c.with(&c.o)
			r, err := s.OpenObject(t.Context(), c.o)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
				err = errors.Join(err, r.Close())
			}
			if fault.Code(err) != c.code || fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v, want code %s", name, err, c.code)
			}
			if int64(len(got)) >= c.o.Size {
				t.Errorf("%s: all %d bytes were handed out before the error", name, len(got))
			}
		}
	})
}

// A read that has begun is not broken by a save that replaces what is read.
func TestReadWhileReplaced(t *testing.T) {
	onEachPlace(t, func(t *testing.T, s *states) {
		plain := noise(1500 << 10)
		o := s.attach(t, s.seal(t, plain))
		r, err := s.OpenObject(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, o.ID) })
		if got := readAll(t, r); got != string(plain) {
			t.Errorf("%d bytes came back, want %d", len(got), len(plain))
		}
		s.sweepAway(t)
		if _, err := s.OpenObject(t.Context(), o); fault.Code(err) != "object_missing" || fault.Is(err, fault.NotFound) {
			t.Errorf("opened after it was deleted: %v, want object_missing", err)
		}
	})
}

// The database shows nothing of what is stored.
func TestStoredBytesShowNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		secret := strings.Repeat("correct horse battery staple ", 20)
		o := s.seal(t, []byte(secret))
		if bytes.Contains(o.Inline, []byte("horse")) || bytes.Contains(o.Wrapped, []byte("horse")) {
			t.Error("the sealed bytes hold the text")
		}
	})
}
