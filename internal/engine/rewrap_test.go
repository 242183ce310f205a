package engine_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/testkit/baotest"
	"holdfast.dev/holdfast/internal/transit"
)

func platformKey(t *testing.T, n byte, earlier ...byte) *keyring.Platform {
	t.Helper()
	key := func(n byte) redact.Secret {
		raw := make([]byte, keyring.KeyBytes)
		for i := range raw {
			raw[i] = byte(i) ^ n
		}
		return redact.NewSecret(base64.StdEncoding.EncodeToString(raw))
	}
	var old []redact.Secret
	for _, n := range earlier {
		old = append(old, key(n))
	}
	p, err := keyring.NewPlatform(key(n), old...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ring(t *testing.T, c keyring.RingConfig) *keyring.Ring {
	t.Helper()
	r, err := keyring.NewRing(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func service(t *testing.T, s *baotest.Server) keyring.Wrapper {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(baotest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := transit.New(transit.Options{
		Tag: "MAIN", Address: s.URL, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Auth: transit.Auth{Method: transit.AuthToken, TokenFile: token},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// with makes s a server with other keys on the same database, whose audit key is sealed by them too.
func (s *states) with(t *testing.T, keys engine.Keys) *states {
	t.Helper()
	out := &states{store: s.store, blobs: s.blobs, org: s.org, log: &safeBuffer{}}
	out.Engine = engine.New(engine.Config{
		Store: s.store, Blobs: s.blobs, Keys: keys, Now: out.now, Log: slog.New(slog.NewTextHandler(out.log, nil)),
		Limits: engine.Limits{
			StateMaxBytes: stateLimit, KeepVersions: keepVersions, RunEndGrace: grace, HeartbeatTimeout: 2 * time.Minute,
			DeletedKeep: 7 * 24 * time.Hour, SourceMaxBytes: 1 << 20, PlanMaxBytes: 1 << 20,
		},
	})
	if err := out.OpenAuditKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *states) platformAdmin() access.Actor {
	a := s.user("root", access.Admin)
	a.PlatformAdmin = true
	return a
}

// rewrap goes through everything and gives what was moved and what failed.
func (s *states) rewrap(t *testing.T) (moved int, failed []engine.RewrapFailure) {
	t.Helper()
	for after := ""; ; {
		step, err := s.Rewrap(t.Context(), s.platformAdmin(), after)
		if err != nil {
			t.Fatal(err)
		}
		moved, failed = moved+step.Moved, append(failed, step.Failed...)
		if after = step.Next; after == "" {
			return moved, failed
		}
	}
}

func (s *states) uses(t *testing.T) string {
	t.Helper()
	uses, err := s.KeyUses(t.Context(), s.platformAdmin())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range uses {
		names = append(names, u.Key.Kind+" "+u.Key.Name+" "+u.Key.Version)
	}
	return strings.Join(names, ", ")
}

// sealedColumns says of every column that holds bytes how a change of keys reaches it. A new one has to be put here,
// and into canaries below where Rewrap has to reach it.
var sealedColumns = map[string]string{
	"objects.wrapped": "rewrapped",
	"objects.inline":  "sealed under the object's data key, which stays",
	"chunks.data":     "sealed under the object's data key, which stays",
}

// S22: no column of the schema holds ciphertext that rotation does not reach.
func TestS22EverySealedColumnIsKnown(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		schema, err := s.store.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		table, found := "", 0
		for line := range strings.SplitSeq(schema, "\n") {
			if name, ok := strings.CutPrefix(line, "table "); ok {
				table = name
			}
			fields := strings.Fields(line)
			if len(fields) < 2 || !strings.HasPrefix(line, "  ") || fields[0] == "index" || fields[0] == "primary" {
				continue
			}
			column := table + "." + fields[0]
			bytesOrKey := fields[1] == "BYTEA" || strings.Contains(fields[0], "wrapped") || strings.Contains(fields[0], "sealed_") || strings.Contains(fields[0], "cipher")
			if _, known := sealedColumns[column]; bytesOrKey && !known {
				t.Errorf("%s may hold ciphertext, and nothing says how a change of keys reaches it", column)
			} else if known {
				found++
			}
		}
		if found != len(sealedColumns) {
			t.Errorf("%d of the %d known columns are in the schema", found, len(sealedColumns))
		}
	})
}

// canary is something that was stored sealed, and can be read again.
type canary struct {
	name string
	read func(t *testing.T, s *states) string
	want string
}

// canaries writes into every sealed place: the head and an older version of a state, one in quarantine, one in a
// deleted state, a large one in chunks, a source, a plan, the audit key, and another organization's.
func canaries(t *testing.T, s *states) []canary {
	t.Helper()
	ann := s.user("ann", access.Operator)
	var out []canary
	content := func(name, state string, number int64, want string) {
		out = append(out, canary{name, func(t *testing.T, s *states) string {
			c, err := s.StateVersionContent(t.Context(), s.user("ann", access.Operator), state, number)
			if err != nil {
				return err.Error()
			}
			return readAll(t, c.Body)
		}, want})
	}
	s.save(t, ann, "net", "l1", doc(1, "a", "canary-old"))
	s.save(t, ann, "net", "l2", doc(2, "a", "canary-head"))
	content("an older version", "net", 1, doc(1, "a", "canary-old"))
	content("the head", "net", 2, doc(2, "a", "canary-head"))
	s.mustLock(t, ann, "net", "l3")
	if _, err := s.WriteState(t.Context(), ann, "net", write("l3", doc(1, "a", "canary-quarantined"))); !fault.Is(err, fault.Conflict) {
		t.Fatalf("a stale save: %v, want a conflict", err)
	}
	s.mustUnlock(t, ann, "net", "l3")
	content("one in quarantine", "net", 3, doc(1, "a", "canary-quarantined"))
	object := func(name, org, kind string, plain []byte) {
		o, err := s.SealObject(t.Context(), org, kind, bytes.NewReader(plain), 8<<20)
		if err != nil {
			t.Fatal(err)
		}
		s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.AttachObject(ctx, o) })
		out = append(out, canary{name, func(t *testing.T, s *states) string { return s.objectText(t, o.ID) }, string(plain)})
	}
	object("a source", s.org, "source", []byte("canary-source"))
	object("a plan in chunks", s.org, "plan", noise(700<<10))
	object("another organization's plan", id.New(id.Organization, s.now()), "plan", []byte("canary-other"))
	return out
}

func (s *states) objectText(t *testing.T, object string) string {
	t.Helper()
	var o engine.Object
	err := s.store.View(t.Context(), func(tx engine.Tx) (err error) {
		o, err = tx.Object(t.Context(), object)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.OpenObject(t.Context(), o)
	if err != nil {
		return err.Error()
	}
	return readAll(t, r)
}

func readCanaries(t *testing.T, s *states, when string, all []canary) {
	t.Helper()
	for _, c := range all {
		if got := c.read(t, s); got != c.want {
			t.Errorf("%s, %s: %.80q, want %.80q", when, c.name, got, c.want)
		}
	}
	v, err := s.VerifyAudit(t.Context(), s.platformAdmin(), "")
	if err != nil || v.BrokenAt != 0 || v.Records == 0 {
		t.Errorf("%s, the audit chain: %+v, %v", when, v, err)
	}
}

// S22: a canary in every sealed place outlives each change of keys and the loss of the key before it: platform key to
// platform key, to a key service, to that one's next version, and back.
func TestS22EverythingMovesToTheNewKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		bao := baotest.New(t)
		first := base.with(t, platformKey(t, 1))
		all := canaries(t, first)
		other := first.objectOrg(t)
		readCanaries(t, first, "before", all)
		type step struct {
			name         string
			during, then *keyring.Ring
			before       func()
			uses         string
		}
		main := map[string]keyring.Wrapper{"MAIN": service(t, bao)}
		second, third := platformKey(t, 2), platformKey(t, 3)
		rotate := func() {
			for _, key := range []string{base.org, other, "installation"} {
				bao.Call(t, "PUT", "transit/keys/holdfast-"+key+"/rotate", nil)
			}
		}
		forbid := func() {
			for _, key := range []string{base.org, other, "installation"} {
				bao.Call(t, "PUT", "transit/keys/holdfast-"+key+"/config", map[string]any{"min_decryption_version": 2})
			}
		}
		for _, s := range []step{
			{"to another platform key", ring(t, keyring.RingConfig{Platform: platformKey(t, 2, 1)}), ring(t, keyring.RingConfig{Platform: second}), nil, "platform " + second.ID() + " 1"},
			{"to a key service", ring(t, keyring.RingConfig{Primary: "MAIN", Platform: second, Services: main}), ring(t, keyring.RingConfig{Primary: "MAIN", Services: main}), nil, "transit"},
			{"to its next version", ring(t, keyring.RingConfig{Primary: "MAIN", Services: main}), ring(t, keyring.RingConfig{Primary: "MAIN", Services: main}), rotate, "transit"},
			{"back to a platform key", ring(t, keyring.RingConfig{Platform: third, Services: main}), ring(t, keyring.RingConfig{Platform: third}), forbid, "platform " + third.ID() + " 1"},
		} {
			if s.before != nil {
				s.before()
			}
			during := base.with(t, s.during)
			readCanaries(t, during, s.name+", before", all)
			moved, failed := during.rewrap(t)
			if want := len(all) + 1; moved != want || len(failed) != 0 { // and the audit key
				t.Errorf("%s: %d moved, failed %v; want %d and none", s.name, moved, failed, want)
			}
			after := base.with(t, s.then)
			readCanaries(t, after, s.name+", after", all)
			if got := after.uses(t); !strings.HasPrefix(got, s.uses) || s.uses != "transit" && got != s.uses || strings.Contains(got, "platform") && s.uses == "transit" {
				t.Errorf("%s: used keys %q, want %s", s.name, got, s.uses)
			}
			if moved, _ := after.rewrap(t); moved != 0 {
				t.Errorf("%s: a second time %d were moved, want none", s.name, moved)
			}
			if _, vs, _, err := after.StateVersions(t.Context(), after.user("v", access.Viewer), "net", false, engine.Page{Limit: 10}); err != nil || !strings.HasPrefix(s.uses, vs[0].Key.Kind) {
				t.Errorf("%s: the version list says %+v, %v", s.name, vs[0].Key, err)
			}
		}
	})
}

// objectOrg is the organization of the canary that belongs to another one.
func (s *states) objectOrg(t *testing.T) (org string) {
	t.Helper()
	err := s.store.View(t.Context(), func(tx engine.Tx) error {
		objects, err := tx.ObjectKeys(t.Context(), "", 100)
		for _, o := range objects {
			if o.Org != s.org && o.Org != "" {
				org = o.Org
			}
		}
		return err
	})
	if err != nil || org == "" {
		t.Fatalf("no other organization's object: %v", err)
	}
	return org
}

// What cannot be moved is told of and left; the rest is moved.
func TestRewrapPassesOverWhatItCannotOpen(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		all := canaries(t, base.with(t, platformKey(t, 1)))
		lost := base.with(t, platformKey(t, 9, 1)) // a key that no later server has
		lost.save(t, base.user("ann", access.Operator), "lost", "l1", doc(1, "l", "x"))
		s := base.with(t, platformKey(t, 2, 1))
		moved, failed := s.rewrap(t)
		if moved != len(all)+1 || len(failed) != 1 || fault.Code(failed[0].Err) != "key_missing" || failed[0].Kind != "state" {
			t.Errorf("%d moved, failed %+v; want %d and one with key_missing", moved, failed, len(all)+1)
		}
		readCanaries(t, base.with(t, platformKey(t, 2)), "after", all)
		for _, a := range []access.Actor{s.user("ann", access.Admin), s.user("eve", access.Operator)} {
			if _, err := s.Rewrap(t.Context(), a, ""); !fault.Is(err, fault.Forbidden) {
				t.Errorf("rewrap as %s: %v, want forbidden", a.Name, err)
			}
			if _, err := s.KeyUses(t.Context(), a); !fault.Is(err, fault.Forbidden) {
				t.Errorf("key uses as %s: %v, want forbidden", a.Name, err)
			}
		}
	})
}

// Two rewraps at once, saves and deletions beside them, and a step that is cut off: nothing is lost.
func TestRewrapBesideEverythingElse(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		first := base.with(t, platformKey(t, 1))
		all := canaries(t, first)
		ann := base.user("ann", access.Operator)
		s := base.with(t, platformKey(t, 2, 1))
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Rewrap(cut, s.platformAdmin(), ""); !errors.Is(err, context.Canceled) {
			t.Errorf("a step that was cut off: %v", err)
		}
		first.mustLock(t, ann, "busy", "l1")
		var work sync.WaitGroup
		for _, beside := range []*states{base.with(t, platformKey(t, 2, 1)), base.with(t, platformKey(t, 2, 1))} {
			work.Go(func() {
				for after, more := "", true; more; {
					step, err := beside.Rewrap(t.Context(), beside.platformAdmin(), after)
					if err != nil || len(step.Failed) > 0 {
						t.Errorf("rewrap after %q: %v, failed %v", after, err, step.Failed)
						return
					}
					after, more = step.Next, step.Next != ""
				}
			})
		}
		work.Go(func() { // a server that has not changed over yet
			for serial := range 20 {
				if _, err := first.WriteState(t.Context(), ann, "busy", write("l1", doc(serial+1, "b", "x"))); err != nil {
					t.Errorf("a save beside: %v", err)
				}
			}
		})
		work.Wait()
		first.mustUnlock(t, ann, "busy", "l1")
		s.rewrap(t)
		last := base.with(t, platformKey(t, 2))
		readCanaries(t, last, "after", all)
		if got := last.read(t, ann, "busy"); got != doc(20, "b", "x") {
			t.Errorf("the state that was saved meanwhile: %q", got)
		}
	})
}

// A key service that goes away ends the step as "try again", and what was read before can still be.
func TestSaveWhileTheKeyServiceIsAway(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		bao := baotest.New(t)
		ann := base.user("ann", access.Operator)
		base.with(t, platformKey(t, 1)).save(t, ann, "old", "l1", doc(1, "a", "by the platform key"))
		s := base.with(t, ring(t, keyring.RingConfig{Primary: "MAIN", Platform: platformKey(t, 1), Services: map[string]keyring.Wrapper{"MAIN": service(t, bao)}}))
		v := s.save(t, ann, "new", "l1", doc(1, "b", "by the service"))
		if v.Key.Kind != "transit" || v.Key.Name != "MAIN/holdfast-"+s.org || v.Key.Version != "1" {
			t.Errorf("key of the version: %+v", v.Key)
		}
		s.mustLock(t, ann, "new", "l2")
		bao.Do(func(b *baotest.Server) { b.Sealed = true })
		before := s.versions(t, "new")
		_, err := s.WriteState(t.Context(), ann, "new", write("l2", doc(2, "b", "x")))
		if f := fault.From(err); f.Kind != fault.Unavailable || f.Code != "key_service_sealed" || f.RetryAfter <= 0 {
			t.Errorf("a save while sealed: %v, want unavailable with a time to come back", err)
		}
		if got := s.versions(t, "new"); got != before || s.staged(t) != 0 {
			t.Errorf("after the refusal: versions %q, want %q, and nothing staged", got, before)
		}
		if got := s.read(t, ann, "old"); got != doc(1, "a", "by the platform key") {
			t.Errorf("the version of the platform key: %q", got)
		}
		if err := s.Ready(t.Context()); fault.Code(err) != "key_service_sealed" {
			t.Errorf("Ready = %v, want key_service_sealed", err)
		}
		if _, err := s.Rewrap(t.Context(), s.platformAdmin(), ""); !fault.Is(err, fault.Unavailable) {
			t.Errorf("rewrap while sealed: %v, want unavailable", err)
		}
		// Nor is what the sealed service holds reported as lost when the way leads back to the platform key.
		back := base.with(t, ring(t, keyring.RingConfig{Platform: platformKey(t, 1), Services: map[string]keyring.Wrapper{"MAIN": service(t, bao)}}))
		if _, err := back.Rewrap(t.Context(), s.platformAdmin(), ""); !fault.Is(err, fault.Unavailable) {
			t.Errorf("rewrap from a sealed service: %v, want unavailable", err)
		}
		bao.Do(func(b *baotest.Server) { b.Sealed = false })
		s.mustWrite(t, ann, "new", "l2", doc(2, "b", "x")) // the tool's repeat
		s.mustUnlock(t, ann, "new", "l2")
	})
}

// A server that starts while the key service is away refuses what it has to record, and serves once it is back.
func TestAuditKeyOpensOnceTheServiceIsBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		bao := baotest.New(t)
		keys := ring(t, keyring.RingConfig{Primary: "MAIN", Services: map[string]keyring.Wrapper{"MAIN": service(t, bao)}})
		ann := base.user("ann", access.Operator)
		base.with(t, keys).save(t, ann, "net", "l1", doc(1, "a", "x"))
		late := ring(t, keyring.RingConfig{Primary: "MAIN", Services: map[string]keyring.Wrapper{"MAIN": service(t, bao)}})
		s := &states{store: base.store, org: base.org, log: &safeBuffer{}}
		s.Engine = engine.New(engine.Config{
			Store: base.store, Keys: late, Now: s.now, Log: slog.New(slog.DiscardHandler),
			Limits: engine.Limits{StateMaxBytes: stateLimit, KeepVersions: keepVersions, HeartbeatTimeout: time.Minute},
		})
		bao.Do(func(b *baotest.Server) { b.Sealed = true })
		if err := s.OpenAuditKey(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("OpenAuditKey = %v, want unavailable", err)
		}
		if _, err := s.VerifyAudit(t.Context(), s.platformAdmin(), ""); fault.Code(err) != "audit_key_closed" {
			t.Errorf("VerifyAudit = %v, want audit_key_closed", err)
		}
		bao.Do(func(b *baotest.Server) { b.Sealed = false })
		if _, err := s.WriteState(t.Context(), ann, "net", write("", doc(2, "a", "x"))); fault.Code(err) != "audit_key_closed" || !fault.Is(err, fault.Unavailable) {
			t.Errorf("a save before the audit key is open: %v, want audit_key_closed", err)
		}
		if err := s.Sweep(t.Context()); err != nil {
			t.Errorf("Sweep = %v", err)
		}
		if _, err := s.WriteState(t.Context(), ann, "net", write("", doc(2, "a", "x"))); err != nil {
			t.Errorf("a save after the sweep: %v", err)
		}
		readCanaries(t, s, "after", nil)
	})
}

// garbling is a key service that answers a rewrap with something that nothing opens.
type garbling struct{ engine.Keys }

func (g garbling) RewrapDataKey(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, state.Key, error) {
	moved, to, err := g.Keys.RewrapDataKey(ctx, org, binding, by, wrapped)
	moved[len(moved)-1] ^= 1
	return moved, to, err
}

// A wrapping that does not open is never stored.
func TestRewrapStoresNothingThatDoesNotOpen(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *states) {
		all := canaries(t, base.with(t, platformKey(t, 1)))
		s := base.with(t, garbling{platformKey(t, 2, 1)})
		if moved, failed := s.rewrap(t); moved != 0 || len(failed) != len(all)+1 || fault.Code(failed[0].Err) != "sealed_damaged" {
			t.Errorf("%d moved, %d failed, want none and %d", moved, len(failed), len(all)+1)
		}
		readCanaries(t, base.with(t, platformKey(t, 1)), "after", all)
	})
}
