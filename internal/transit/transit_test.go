package transit_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/testkit/baotest"
	"holdfast.dev/holdfast/internal/transit"
)

var dataKey = bytes.Repeat([]byte{3, 9}, keyring.KeyBytes/2)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, s *baotest.Server, change func(o *transit.Options)) *transit.Client {
	t.Helper()
	o := transit.Options{
		Tag: "MAIN", Address: s.URL, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Auth: transit.Auth{Method: transit.AuthToken, TokenFile: write(t, baotest.Token)},
	}
	if change != nil {
		change(&o)
	}
	c, err := transit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wrap(t *testing.T, c *transit.Client, org, binding string) ([]byte, state.Key) {
	t.Helper()
	wrapped, by, err := c.Wrap(t.Context(), org, binding, dataKey)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped, by
}

func TestDataKeyComesBack(t *testing.T) {
	s := baotest.New(t)
	c := open(t, s, nil)
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	if want := (state.Key{Kind: "transit", Name: "MAIN/holdfast-org_1", Version: "1"}); by != want {
		t.Errorf("key is %+v, want %+v", by, want)
	}
	if bytes.Contains(wrapped, dataKey) {
		t.Error("the wrapped form holds the key in clear")
	}
	if got, err := open(t, s, nil).Unwrap(t.Context(), "org_1", "wri_1", by, wrapped); err != nil || !bytes.Equal(got, dataKey) {
		t.Errorf("Unwrap = %x, %v; want %x", got, err, dataKey)
	}
	if _, other := wrap(t, c, "org_2", "wri_1"); other.Name != "MAIN/holdfast-org_2" {
		t.Errorf("another organization's key is %s", other.Name)
	}
	if _, own := wrap(t, c, "", "obj_1"); own.Name != "MAIN/holdfast-installation" {
		t.Errorf("the installation's key is %s", own.Name)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("Ready = %v", err)
	}
}

// A wrapped key that was moved to another row opens nothing, also where the row names its own organization's key.
func TestDataKeyIsBound(t *testing.T) {
	c := open(t, baotest.New(t), nil)
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	_, other := wrap(t, c, "org_2", "wri_1")
	if _, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped); err != nil { // and keeps it
		t.Fatal(err)
	}
	for name, at := range map[string]struct {
		org, binding string
		by           state.Key
	}{
		"another object":         {"org_1", "wri_2", by},
		"another organization":   {"org_2", "wri_1", by},
		"shifted":                {"org_1w", "ri_1", by},
		"another key, its row":   {"org_2", "wri_1", other},
		"another key, old place": {"org_1", "wri_1", other},
	} {
		if _, err := c.Unwrap(t.Context(), at.org, at.binding, at.by, wrapped); fault.Code(err) != "sealed_damaged" {
			t.Errorf("%s: %v, want sealed_damaged", name, err)
		}
	}
	if _, _, err := c.Rewrap(t.Context(), "org_2", "wri_1", by, wrapped); fault.Code(err) != "sealed_damaged" {
		t.Errorf("rewrapped for another organization: %v, want sealed_damaged", err)
	}
	for i := range wrapped {
		changed := bytes.Clone(wrapped)
		changed[i] ^= 2
		got, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, changed)
		if slack := i >= len(wrapped)-3; err == nil && !(slack && bytes.Equal(got, dataKey)) { // bits that base64 does not use
			t.Errorf("byte %d changed: opened as %x", i, got)
		} else if fault.Is(err, fault.Unavailable) {
			t.Errorf("byte %d changed: %v, as if the service were away", i, err)
		}
	}
}

func TestKeysRotate(t *testing.T) {
	s := baotest.New(t)
	c := open(t, s, nil)
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	s.Call(t, "PUT", "transit/keys/holdfast-org_1/rotate", nil)
	if _, now := wrap(t, c, "org_1", "wri_2"); now.Version != "2" {
		t.Errorf("after the rotation the version is %s, want 2", now.Version)
	}
	moved, to, err := c.Rewrap(t.Context(), "org_1", "wri_1", by, wrapped)
	if err != nil || to.Version != "2" || to.Name != by.Name || bytes.Equal(moved, wrapped) {
		t.Fatalf("Rewrap gives %+v, %v; want version 2 of %s", to, err, by.Name)
	}
	s.Call(t, "PUT", "transit/keys/holdfast-org_1/config", map[string]any{"min_decryption_version": 2})
	if got, err := c.Unwrap(t.Context(), "org_1", "wri_1", to, moved); err != nil || !bytes.Equal(got, dataKey) {
		t.Errorf("rewrapped: %x, %v; want %x", got, err, dataKey)
	}
	if _, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped); fault.Code(err) != "key_missing" || !strings.Contains(err.Error(), "holdfast-org_1") {
		t.Errorf("the version that was ended: %v, want key_missing naming the key", err)
	}
}

// A key that is gone is named, and is not mistaken for a service that will come back.
func TestMissingKeyIsNamed(t *testing.T) {
	s := baotest.New(t)
	c := open(t, s, nil)
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	s.Call(t, "PUT", "transit/keys/holdfast-org_1/config", map[string]any{"deletion_allowed": true})
	s.Call(t, "DELETE", "transit/keys/holdfast-org_1", nil)
	_, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped)
	if fault.Code(err) != "key_missing" || fault.Is(err, fault.Unavailable) || !strings.Contains(fault.From(err).Public, "transit/holdfast-org_1") {
		t.Errorf("Unwrap = %v, want key_missing naming the key", err)
	}
	wrap(t, c, "org_1", "wri_2") // makes another key of the name
	if _, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped); fault.Code(err) != "sealed_damaged" {
		t.Errorf("with another key of its name: %v, want sealed_damaged", err)
	}
}

// Where the login may not make keys, somebody else has to, and until then writes are refused as "try again".
func TestKeysThatMayNotBeMade(t *testing.T) {
	s := baotest.New(t)
	s.Do(func(s *baotest.Server) { s.NoCreate = true })
	c := open(t, s, nil)
	if _, _, err := c.Wrap(t.Context(), "org_1", "wri_1", dataKey); fault.Code(err) != "key_service_refused" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("Wrap = %v, want key_service_refused, unavailable", err)
	}
	s.Call(t, "PUT", "transit/keys/holdfast-org_1", nil)
	wrap(t, c, "org_1", "wri_1")

	s.Do(func(s *baotest.Server) { s.NoCreate = false })
	s.Call(t, "PUT", "transit/config/keys", map[string]any{"disable_upsert": true})
	if _, _, err := c.Wrap(t.Context(), "org_2", "wri_1", dataKey); fault.Code(err) != "key_missing" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("with upsert off Wrap = %v, want key_missing, unavailable", err)
	}
}

// Whatever is wrong with the service is Unavailable with a time to come back, for both ways, and then passes.
func TestServiceThatIsAway(t *testing.T) {
	s := baotest.New(t)
	c := open(t, s, nil)
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	for name, f := range map[string]struct {
		change func(s *baotest.Server, on bool)
		code   string
		ready  bool // a login is not enough to see it
	}{
		"sealed":   {func(s *baotest.Server, on bool) { s.Sealed = on }, "key_service_sealed", false},
		"refusing": {func(s *baotest.Server, on bool) { s.Refuse = on }, "key_service_refused", true},
		"failing":  {func(s *baotest.Server, on bool) { s.Broken = on }, "key_service_failed", true},
	} {
		s.Do(func(s *baotest.Server) { f.change(s, true) })
		_, _, wrapErr := c.Wrap(t.Context(), "org_1", "wri_2", dataKey)
		_, unwrapErr := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped)
		_, _, rewrapErr := c.Rewrap(t.Context(), "org_1", "wri_1", by, wrapped)
		for _, err := range []error{wrapErr, unwrapErr, rewrapErr} {
			if got := fault.From(err); got.Kind != fault.Unavailable || got.Code != f.code || got.RetryAfter <= 0 || got.Hint == "" {
				t.Errorf("%s: %v (kind %s, code %s, retry after %s), want unavailable %s", name, err, got.Kind, got.Code, got.RetryAfter, f.code)
			} else if strings.Contains(got.Public+got.Hint, s.URL) {
				t.Errorf("%s: %q tells clients the address", name, got.Public)
			}
		}
		if err := c.Ready(t.Context()); (err == nil) != f.ready {
			t.Errorf("%s: Ready = %v", name, err)
		}
		s.Do(func(s *baotest.Server) { f.change(s, false) })
	}
	wrap(t, c, "org_1", "wri_3")
}

func TestServiceThatCannotBeReached(t *testing.T) {
	s := baotest.New(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]*transit.Client{
		"nobody listens": open(t, s, func(o *transit.Options) { o.Address = gone.URL }),
		"no such host":   open(t, s, func(o *transit.Options) { o.Address = "http://holdfast.invalid:8200" }),
	} {
		_, _, err := c.Wrap(t.Context(), "org_1", "wri_1", dataKey)
		if fault.Code(err) != "key_service_unreachable" || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want key_service_unreachable", name, err)
		}
		if err := c.Ready(t.Context()); fault.Code(err) != "key_service_unreachable" {
			t.Errorf("%s: Ready = %v", name, err)
		}
	}
}

// A service that does not answer costs a caller 5 s, and nothing once the caller has gone.
func TestServiceThatHangs(t *testing.T) {
	s := baotest.New(t)
	c := open(t, s, nil)
	wrap(t, c, "org_1", "wri_1")
	s.Do(func(s *baotest.Server) { s.Hang = true })
	began := time.Now()
	_, _, err := c.Wrap(t.Context(), "org_1", "wri_2", dataKey)
	if took := time.Since(began); fault.Code(err) != "key_service_unreachable" || took < 4*time.Second || took > 9*time.Second {
		t.Errorf("Wrap = %v after %s, want key_service_unreachable after 5 s", err, took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, _, err := c.Wrap(ctx, "org_1", "wri_3", dataKey); !errors.Is(err, context.Canceled) || fault.Is(err, fault.Unavailable) {
			t.Errorf("a caller that went away: %v, want context.Canceled", err)
		}
	})
	cancel(errors.New("gone"))
	waiting.Wait()
	hurried, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer end()
	if _, _, err := c.Wrap(hurried, "org_1", "wri_3", dataKey); fault.Code(err) != "key_service_unreachable" {
		t.Errorf("a caller with less time, such as readiness: %v, want key_service_unreachable", err)
	}
}

func TestMountNamespaceAndAuthority(t *testing.T) {
	s := baotest.New(t)
	s.Do(func(s *baotest.Server) { s.Namespace = "teams/one" })
	c := open(t, s, func(o *transit.Options) { o.Namespace = "teams/one" })
	wrap(t, c, "org_1", "wri_1")
	if _, _, err := open(t, s, nil).Wrap(t.Context(), "org_1", "wri_1", dataKey); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without the namespace: %v, want unavailable", err)
	}
	elsewhere := open(t, s, func(o *transit.Options) { o.Namespace, o.Mount = "teams/one", "/keys/" })
	if _, _, err := elsewhere.Wrap(t.Context(), "org_1", "wri_1", dataKey); fault.Code(err) != "key_service_refused" || !strings.Contains(fault.From(err).Hint, "HOLDFAST_SECRET_BACKEND_MAIN_MOUNT") {
		t.Errorf("at a mount that is not there: %v, want key_service_refused with a hint at the setting", err)
	}

	secure := httptest.NewTLSServer(s)
	defer secure.Close()
	ca := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	wrap(t, open(t, s, func(o *transit.Options) { o.Namespace, o.Address, o.CAFile = "teams/one", secure.URL, ca }), "org_1", "wri_1")
	stranger := open(t, s, func(o *transit.Options) { o.Namespace, o.Address = "teams/one", secure.URL })
	if _, _, err := stranger.Wrap(t.Context(), "org_1", "wri_1", dataKey); fault.Code(err) != "key_service_unreachable" {
		t.Errorf("a certificate of an unknown authority: %v, want key_service_unreachable", err)
	}
	if _, err := transit.New(transit.Options{Tag: "X", Address: s.URL, CAFile: write(t, "no certificate"), Log: slog.New(slog.DiscardHandler), Now: time.Now}); err == nil {
		t.Error("a CA file without a certificate was taken")
	}
}

// The tools' own variables have no say: a stray BAO_TOKEN must not decide whose key seals.
func TestEnvironmentHasNoSay(t *testing.T) {
	for _, prefix := range []string{"VAULT_", "BAO_"} {
		for name, value := range map[string]string{"ADDR": "http://holdfast.invalid", "TOKEN": "other", "NAMESPACE": "other", "AGENT_ADDR": "http://holdfast.invalid"} {
			t.Setenv(prefix+name, value)
		}
	}
	wrap(t, open(t, baotest.New(t), nil), "org_1", "wri_1")
}

// An opened key is kept for 30 s, and the key of a write not at all.
func TestOpenedKeysAreKeptForAShortTime(t *testing.T) {
	s := baotest.New(t)
	now := time.Now()
	c := open(t, s, func(o *transit.Options) { o.Now = func() time.Time { return now } })
	wrapped, by := wrap(t, c, "org_1", "wri_1")
	opened := func(want int, when string) {
		t.Helper()
		got, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped)
		if err != nil || !bytes.Equal(got, dataKey) {
			t.Fatalf("%s: %x, %v", when, got, err)
		}
		clear(got) // the caller's copy is its own
		if n := s.Asked("/decrypt/"); n != want {
			t.Errorf("%s: the service was asked %d times, want %d", when, n, want)
		}
	}
	opened(1, "after the write")
	opened(1, "again")
	s.Do(func(s *baotest.Server) { s.Sealed = true })
	now = now.Add(29 * time.Second)
	opened(1, "29 s later, sealed")
	now = now.Add(time.Second)
	if _, err := c.Unwrap(t.Context(), "org_1", "wri_1", by, wrapped); fault.Code(err) != "key_service_sealed" {
		t.Errorf("30 s later, sealed: %v, want key_service_sealed", err)
	}
	s.Do(func(s *baotest.Server) { s.Sealed = false })
	opened(3, "unsealed, after one that was refused")
}
