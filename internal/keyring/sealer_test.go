package keyring_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
)

var dataKey = bytes.Repeat([]byte{7, 1}, keyring.KeyBytes/2)

func seal(t testing.TB, s *keyring.Sealer, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := s.Seal(dataKey, "org", "wri", &out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, iotest.HalfReader(bytes.NewReader(plain))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(s *keyring.Sealer, key []byte, org, binding string, sealed []byte) ([]byte, error) {
	r, err := s.Open(key, org, binding, bytes.NewReader(sealed))
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

// noise does not compress, so sealed sizes are about plain sizes and segments can be told apart.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestSealedStreamComesBack(t *testing.T) {
	s := keyring.NewSealer()
	const segment = 16 << 10
	for _, n := range []int{0, 1, 100, segment - 57, segment - 56, segment - 1, segment, segment + 1, 3 * segment, 5<<20 + 3} {
		for kind, plain := range map[string][]byte{"noise": noise(n), "text": []byte(strings.Repeat("state ", n/6+1)[:n])} {
			sealed := seal(t, s, plain)
			got, err := open(s, dataKey, "org", "wri", sealed)
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes of %s: %d came back, %v", n, kind, len(got), err)
			}
			if kind == "text" && n > 1000 && len(sealed) > n/4 {
				t.Errorf("%d bytes of text take %d sealed", n, len(sealed))
			}
		}
	}
}

func TestSealedStreamIsBound(t *testing.T) {
	s := keyring.NewSealer()
	sealed := seal(t, s, noise(100))
	other := bytes.Clone(dataKey)
	other[31] ^= 1
	for name, c := range map[string]struct {
		key          []byte
		org, binding string
	}{
		"other key":          {other, "org", "wri"},
		"other organization": {dataKey, "org2", "wri"},
		"other object":       {dataKey, "org", "wri2"},
		"shifted":            {dataKey, "orgw", "ri"},
	} {
		if got, err := open(s, c.key, c.org, c.binding, sealed); fault.Code(err) != "sealed_damaged" || len(got) > 0 {
			t.Errorf("%s: %d bytes, %v; want none and sealed_damaged", name, len(got), err)
		}
	}
	if _, err := open(s, dataKey[:16], "org", "wri", sealed); err == nil {
		t.Error("a key of 16 bytes was taken")
	}
}

// Every bit of a short stream matters, and so does its length.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	s := keyring.NewSealer()
	plain := []byte(`{"version":4,"serial":1,"lineage":"a"}`)
	sealed := seal(t, s, plain)
	for i := range len(sealed) * 8 {
		changed := bytes.Clone(sealed)
		changed[i/8] ^= 1 << (i % 8)
		if got, err := open(s, dataKey, "org", "wri", changed); fault.Code(err) != "sealed_damaged" {
			t.Fatalf("bit %d of byte %d flipped: %q, %v; want sealed_damaged", i%8, i/8, got, err)
		}
	}
	for i := range sealed {
		if got, err := open(s, dataKey, "org", "wri", sealed[:i]); fault.Code(err) != "sealed_damaged" {
			t.Fatalf("cut to %d of %d bytes: %q, %v; want sealed_damaged", i, len(sealed), got, err)
		}
	}
	if got, err := open(s, dataKey, "org", "wri", append(bytes.Clone(sealed), 0)); fault.Code(err) != "sealed_damaged" {
		t.Fatalf("a byte appended: %q, %v; want sealed_damaged", got, err)
	}
}

// A long stream that was cut at a segment, lost one, or has them in another order does not read as a shorter or
// another document.
func TestSegmentsKeepTheirPlace(t *testing.T) {
	s := keyring.NewSealer()
	plain := noise(100 << 10)
	sealed := seal(t, s, plain)
	const segment = 16 << 10
	var parts [][]byte
	for rest := sealed; len(rest) > 0; {
		n := min(segment, len(rest))
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	refused := func(what string, order ...[]byte) {
		t.Helper()
		got, err := open(s, dataKey, "org", "wri", bytes.Join(order, nil))
		if fault.Code(err) != "sealed_damaged" {
			t.Errorf("%s: %d bytes, %v; want sealed_damaged", what, len(got), err)
		}
	}
	for i := range parts {
		refused(fmt.Sprintf("cut before segment %d", i), parts[:i]...)
		without := append(append([][]byte{}, parts[:i]...), parts[i+1:]...)
		refused(fmt.Sprintf("without segment %d", i), without...)
		if i > 0 {
			swapped := append([][]byte{}, parts...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			refused(fmt.Sprintf("segments %d and %d swapped", i-1, i), swapped...)
		}
	}
	refused("last segment twice", append(append([][]byte{}, parts...), parts[len(parts)-1])...)
}

// A pooled compressor must not carry anything from one stream into the next, whatever became of the first.
func TestDiscardedStreamLeavesNothing(t *testing.T) {
	s := keyring.NewSealer()
	var out bytes.Buffer
	w, err := s.Seal(dataKey, "org", "wri", &out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(noise(300 << 10)); err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("a discarded stream takes bytes")
	}
	if err := w.Close(); err == nil {
		t.Error("a discarded stream can be ended as if it were whole")
	}
	if _, err := open(s, dataKey, "org", "wri", out.Bytes()); err == nil {
		t.Error("a discarded stream opens")
	}
	plain := []byte("after")
	if got, err := open(s, dataKey, "org", "wri", seal(t, s, plain)); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("the next stream: %q, %v", got, err)
	}
}

func TestSourceErrorsKeepTheirName(t *testing.T) {
	s := keyring.NewSealer()
	sealed := seal(t, s, noise(100<<10))
	away := fault.New(fault.Unavailable, "database_away", "The database is away.")
	r, err := s.Open(dataKey, "org", "wri", io.MultiReader(bytes.NewReader(sealed[:50<<10]), iotest.ErrReader(away)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, r)
	if fault.Code(err) != "database_away" {
		t.Errorf("error is %v, want database_away", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkSeal(b *testing.B) {
	s := keyring.NewSealer()
	for _, n := range []int{10 << 10, 1 << 20} {
		plain := []byte(strings.Repeat(`{"mode":"managed","type":"aws_instance","name":"web"},`, n/54))
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				w, err := s.Seal(dataKey, "org", "wri", io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Write(plain); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
