package engine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/state"
)

// docOf is a state document with a resource of type t for each name; size is an attribute of all of them.
func docOf(serial int, size string, names ...string) string {
	var rs []string
	for _, n := range names {
		rs = append(rs, fmt.Sprintf(`{"mode":"managed","type":"t","name":%q,"provider":"provider[\"example.test/acme/x\"]","instances":[{"schema_version":0,`+
			`"attributes":{"size":%q,"password":"canary-%s"},"sensitive_attributes":[[{"type":"get_attr","value":"password"}]]}]}`, n, size, size))
	}
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"l","outputs":{"size":{"value":%q,"type":"string"},"secret":{"value":"canary-%s","type":"string","sensitive":true}},"resources":[%s]}`,
		serial, size, size, strings.Join(rs, ","))
}

// found is what a search of the organization gives.
func (s *states) found(t *testing.T, a access.Actor, f engine.ResourceFilter) string {
	t.Helper()
	items, next, err := s.Resources(t.Context(), a, f, engine.Page{Limit: 100})
	if err != nil || next != "" {
		t.Fatalf("search: next %q, %v", next, err)
	}
	var out []string
	for _, r := range items {
		out = append(out, r.State+":"+r.Address)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *states) listed(t *testing.T, name string) engine.ResourceList {
	t.Helper()
	l, err := s.StateResources(t.Context(), s.user("vic", access.Viewer), name, engine.ResourceFilter{}, engine.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestResourcesFollowTheState(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann, admin, viewer := s.user("ann", access.Operator), s.user("root", access.Admin), s.user("vic", access.Viewer)
		want := func(when, all string) {
			t.Helper()
			if got := s.found(t, viewer, engine.ResourceFilter{}); got != all {
				t.Errorf("%s: %q, want %q", when, got, all)
			}
		}
		s.mustLock(t, ann, "net", "A")
		if l := s.listed(t, "net"); l.Pending || l.Unreadable != "" || len(l.Items) > 0 {
			t.Errorf("an empty state says %+v", l)
		}
		s.mustUnlock(t, ann, "net", "A")
		s.save(t, ann, "net", "A", docOf(1, "a", "one", "two"))
		s.save(t, ann, "app", "A", docOf(1, "a", "one"))
		want("after two saves", "app:t.one net:t.one net:t.two")
		if l := s.listed(t, "net"); l.Pending || l.Unreadable != "" || len(l.Items) != 2 {
			t.Errorf("a state with two resources says %+v", l)
		}
		if got := s.found(t, viewer, engine.ResourceFilter{Query: "T.TWO", Type: "t"}); got != "net:t.two" {
			t.Errorf("search by name: %q", got)
		}
		s.save(t, ann, "net", "B", docOf(2, "b", "three", "two"))
		want("after a change", "app:t.one net:t.three net:t.two")
		if _, err := s.RollbackState(t.Context(), ann, "net", 1); err != nil {
			t.Fatal(err)
		}
		want("after a rollback", "app:t.one net:t.one net:t.two")
		s.save(t, ann, "app", "B", `{"serial":2,"lineage":"l","meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`)
		want("after an encrypted save", "net:t.one net:t.two")
		if l := s.listed(t, "app"); l.Unreadable != engine.ClientEncrypted || l.Pending || len(l.Items) > 0 {
			t.Errorf("an encrypted state says %+v", l)
		}
		if err := s.DeleteState(t.Context(), admin, "net", false); err != nil {
			t.Fatal(err)
		}
		want("after the deletion", "")
		_, list := s.StateResources(t.Context(), viewer, "net", engine.ResourceFilter{}, engine.Page{Limit: 1})
		_, diff := s.DiffState(t.Context(), ann, "net", 0, 0)
		_, outputs := s.StateOutputs(t.Context(), ann, "net")
		_, resource := s.StateResource(t.Context(), ann, "net", "t.one")
		for what, err := range map[string]error{"list": list, "diff": diff, "outputs": outputs, "resource": resource} {
			wantRefused(t, "the "+what+" of a deleted state", err, "state_deleted")
		}
		if _, err := s.RestoreState(t.Context(), admin, "net"); err != nil {
			t.Fatal(err)
		}
		want("after it was restored", "net:t.one net:t.two")
		if err := s.DeleteState(t.Context(), admin, "net", true); err != nil {
			t.Fatal(err)
		}
		want("after the purge", "")
		stranger := access.Actor{Kind: access.User, Org: "org_other", ID: "usr_x", Role: access.Admin}
		if _, err := s.StateResources(t.Context(), stranger, "app", engine.ResourceFilter{}, engine.Page{Limit: 1}); fault.Code(err) != "state_not_found" {
			t.Errorf("the list of another organization's state: %v", err)
		}
		s.mustLock(t, ann, "typo", "A")
		s.mustUnlock(t, ann, "typo", "A")
		s.mustDelete(t, "typo", false)
		_, diff = s.DiffState(t.Context(), ann, "typo", 0, 0)
		wantRefused(t, "the diff of a deleted state without a document", diff, "state_deleted")
	})
}

// TestMissingListsAreMade: states from before there were lists get theirs from the housekeeping, and one that cannot be
// read keeps no other from it.
func TestMissingListsAreMade(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		for _, name := range []string{"broken", "net", "locked"} {
			s.save(t, ann, name, "A", docOf(1, "a", name))
		}
		s.mustLock(t, ann, "locked", "B")
		s.update(t, func(ctx context.Context, tx engine.Tx) error {
			for _, name := range []string{"broken", "net", "locked"} {
				st, err := tx.State(ctx, s.org, name)
				if err != nil {
					return err
				}
				if err := tx.SetResources(ctx, s.org, st.ID, nil, state.List{}); err != nil {
					return err
				}
				if name == "broken" {
					if err := tx.DeleteObject(ctx, st.Head.ID); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if l := s.listed(t, "net"); !l.Pending || len(l.Items) > 0 {
			t.Errorf("before: %+v", l)
		}
		for range 2 { // the second time there is nothing left to do
			if err := s.Housekeep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := s.found(t, ann, engine.ResourceFilter{}); got != "locked:t.locked net:t.net" {
				t.Errorf("after: %q", got)
			}
		}
		if strings.Count(s.log.String(), `"resources of states cannot be listed" states=1 `) != 2 || !s.listed(t, "broken").Pending || s.listed(t, "net").Pending {
			t.Errorf("the state that cannot be read is not told of: %s", s.log.String())
		}
	})
}

// overtaken is a database in which something happens once a state was looked up by its id.
type overtaken struct {
	engine.Store
	once func()
}

func (o *overtaken) View(ctx context.Context, fn func(engine.Tx) error) error {
	looked := false
	err := o.Store.View(ctx, func(tx engine.Tx) error { return fn(lookingTx{tx, &looked}) })
	if once := o.once; looked && once != nil {
		o.once = nil
		once()
	}
	return err
}

type lookingTx struct {
	engine.Tx
	looked *bool
}

func (l lookingTx) StateByID(ctx context.Context, id string) (state.State, error) {
	*l.looked = true
	return l.Tx.StateByID(ctx, id)
}

// What becomes of a state while its missing list is made counts: the list of a document that is not current any more is
// not stored, and that there is no such state is no failure.
func TestMissingListThatIsOvertaken(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		for name, c := range map[string]struct {
			meanwhile func(name string)
			want      string
		}{
			"saved":   {func(name string) { s.save(t, ann, name, "B", docOf(2, "a", "newer")) }, "saved:t.newer"},
			"deleted": {func(name string) { s.mustDelete(t, name, false) }, ""},
			"purged":  {func(name string) { s.mustDelete(t, name, true) }, ""},
		} {
			s.save(t, ann, name, "A", docOf(1, "a", "one"))
			s.update(t, func(ctx context.Context, tx engine.Tx) error {
				st, err := tx.State(ctx, s.org, name)
				if err != nil {
					return err
				}
				return tx.SetResources(ctx, s.org, st.ID, nil, state.List{})
			})
			db := &overtaken{Store: s.store, once: func() { c.meanwhile(name) }}
			if err := s.serverOn(t, db).Housekeep(t.Context()); err != nil || db.once != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := s.found(t, ann, engine.ResourceFilter{}); got != c.want {
				t.Errorf("%s: listed %q, want %q", name, got, c.want)
			}
			if name != "purged" {
				s.mustDelete(t, name, true)
			}
		}
		if log := s.log.String(); strings.Contains(log, "cannot be listed") {
			t.Errorf("told as a failure: %s", log)
		}
	})
}

func TestDiffState(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		if _, err := s.DiffState(t.Context(), ann, "net", 0, 0); fault.Code(err) != "state_not_found" {
			t.Errorf("no state: %v", err)
		}
		s.mustLock(t, ann, "net", "A")
		if _, err := s.DiffState(t.Context(), ann, "net", 0, 0); fault.Code(err) != "state_empty" {
			t.Errorf("an empty state: %v", err)
		}
		s.mustWrite(t, ann, "net", "A", docOf(5, "a", "one", "two"))
		s.mustUnlock(t, ann, "net", "A")
		diff := func(from, to int64) string {
			t.Helper()
			d, err := s.DiffState(t.Context(), ann, "net", from, to)
			if err != nil {
				t.Fatalf("from %d to %d: %v", from, to, err)
			}
			out := fmt.Sprintf("%d-%d", d.From.Number, d.To.Number)
			for _, c := range d.Changes {
				out += " " + string(c.Action) + ":" + c.Address
			}
			if strings.Contains(fmt.Sprintf("%+v", d.Diff), "canary") {
				t.Errorf("from %d to %d shows a secret: %+v", from, to, d.Diff)
			}
			return fmt.Sprintf("%s outputs:%d unchanged:%d lineage:%t %s", out, len(d.Outputs), d.Unchanged, d.LineageChanged, d.Unreadable)
		}
		if got := diff(0, 0); got != "0-1 added:t.one added:t.two outputs:2 unchanged:0 lineage:false " {
			t.Errorf("the first version: %s", got)
		}
		s.save(t, ann, "net", "B", docOf(6, "b", "one"))
		// A stale save of the lock's holder is kept aside, and can be compared.
		s.mustLock(t, ann, "net", "C")
		if _, err := s.WriteState(t.Context(), ann, "net", write("C", docOf(3, "b", "one", "mine"))); !fault.Is(err, fault.Conflict) {
			t.Fatalf("a stale write: %v", err)
		}
		s.mustUnlock(t, ann, "net", "C")
		for _, c := range []struct {
			from, to int64
			want     string
		}{
			{0, 0, "1-2 removed:t.two changed:t.one outputs:2 unchanged:0 lineage:false "},
			{0, 3, "2-3 added:t.mine outputs:0 unchanged:1 lineage:false "},
			{3, 2, "3-2 removed:t.mine outputs:0 unchanged:1 lineage:false "},
			{2, 2, "2-2 outputs:0 unchanged:1 lineage:false "},
		} {
			if got := diff(c.from, c.to); got != c.want {
				t.Errorf("from %d to %d: %s, want %s", c.from, c.to, got, c.want)
			}
		}
		for _, sides := range [][2]int64{{9, 0}, {0, 9}} {
			_, err := s.DiffState(t.Context(), ann, "net", sides[0], sides[1])
			wantRefused(t, "a version that is not there", err, "version_not_found")
		}
		s.save(t, ann, "net", "D", `{"serial":7,"lineage":"l","meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`)
		if got := diff(0, 0); got != "2-4 outputs:0 unchanged:0 lineage:false client_encrypted" {
			t.Errorf("an encrypted version: %s", got)
		}
		s.save(t, ann, "net", "E", docOf(8, "b", "one"))
		if got := diff(0, 0); got != "4-5 outputs:0 unchanged:0 lineage:false client_encrypted" {
			t.Errorf("since an encrypted version: %s", got)
		}
		if got := s.audited(t, "net"); strings.Count(got, "diff") != 7 {
			t.Errorf("audited %s, want each diff that was answered", got)
		}
		records, _, err := s.Audit(t.Context(), s.user("root", access.Admin), engine.AuditFilter{Action: "state.diff"}, engine.Page{Limit: 1})
		if err != nil || len(records) != 1 || records[0].ActorID != ann.ID || string(records[0].Data) != `{"from":4,"to":5}` {
			t.Errorf("the last diff is recorded as %+v, %v", records, err)
		}
		if _, err := s.DiffState(t.Context(), s.user("vic", access.Viewer), "net", 0, 0); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a viewer: %v", err)
		}
		_, attempt := s.newWork(t, "own", false).attempt(t, "plan")
		if _, err := s.DiffState(t.Context(), attempt, "net", 0, 0); fault.Code(err) != "other_state" {
			t.Errorf("an attempt on another state: %v", err)
		}
	})
}

func TestOutputsAndResourcesOfAState(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		s.save(t, ann, "net", "A", docOf(1, "a", "one", "two"))
		o, err := s.StateOutputs(t.Context(), ann, "net")
		if err != nil || o.Version != 1 || fmt.Sprint(o.Outputs) != `[{secret "string"  true false} {size "string" "a" false false}]` {
			t.Errorf("outputs %+v, %v", o, err)
		}
		d, err := s.StateResource(t.Context(), ann, "net", "t.one")
		if err != nil || d.Provider != "example.test/acme/x" || d.Instances != 1 || len(d.Details) != 1 || len(d.Details[0].Attributes) != 2 {
			t.Fatalf("resource %+v, %v", d, err)
		}
		for _, a := range d.Details[0].Attributes {
			if a.Sensitive != (a.Path == "password") || strings.Contains(a.After, "canary") {
				t.Errorf("attribute %+v", a)
			}
		}
		if _, err := s.StateResource(t.Context(), ann, "net", "t.three"); fault.Code(err) != "resource_not_found" {
			t.Errorf("no such resource: %v", err)
		}
		stranger := ann
		stranger.Org = "org_other"
		_, diff := s.DiffState(t.Context(), stranger, "net", 0, 0)
		_, outputs := s.StateOutputs(t.Context(), stranger, "net")
		_, resource := s.StateResource(t.Context(), stranger, "net", "t.one")
		for what, err := range map[string]error{"diff": diff, "outputs": outputs, "resource": resource} {
			wantRefused(t, "another organization's "+what, err, "state_not_found")
		}
		if got := s.found(t, stranger, engine.ResourceFilter{Org: s.org}); got != "" {
			t.Errorf("another organization finds %q", got)
		}
		if got := s.audited(t, "net"); got != "write outputs resource resource" {
			t.Errorf("audited %q", got)
		}
		for action, data := range map[string]string{"state.outputs": "{}", "state.resource": `{"address":"t.one"}`} {
			records, _, err := s.Audit(t.Context(), s.user("root", access.Admin), engine.AuditFilter{Action: action}, engine.Page{Limit: 10})
			if err != nil || len(records) == 0 || records[len(records)-1].ActorID != ann.ID || string(records[len(records)-1].Data) != data {
				t.Errorf("%s is recorded as %+v, %v; want ann and %s", action, records, err, data)
			}
		}
		s.mustLock(t, ann, "empty", "A")
		_, empty := s.StateOutputs(t.Context(), ann, "empty")
		wantRefused(t, "outputs of an empty state", empty, "state_empty")
		s.save(t, ann, "sealed", "A", `{"serial":1,"lineage":"l","meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`)
		o, err = s.StateOutputs(t.Context(), ann, "sealed")
		if err != nil || o.Unreadable != engine.ClientEncrypted || len(o.Outputs) > 0 {
			t.Errorf("outputs of an encrypted state: %+v, %v", o, err)
		}
		d, err = s.StateResource(t.Context(), ann, "sealed", "t.one")
		if err != nil || d.Unreadable != engine.ClientEncrypted || len(d.Details) > 0 {
			t.Errorf("a resource of an encrypted state: %+v, %v", d, err)
		}
		_, attempt := s.newWork(t, "own", false).attempt(t, "plan")
		for _, a := range []access.Actor{attempt, s.user("vic", access.Viewer)} {
			_, outputs := s.StateOutputs(t.Context(), a, "net")
			_, resource := s.StateResource(t.Context(), a, "net", "t.one")
			if !fault.Is(outputs, fault.Forbidden) || !fault.Is(resource, fault.Forbidden) {
				t.Errorf("%s: %v, %v", a.Kind, outputs, resource)
			}
		}
		for _, name := range []string{"own", "net"} {
			_, err := s.StateResources(t.Context(), attempt, name, engine.ResourceFilter{}, engine.Page{Limit: 1})
			wantRefused(t, "an attempt lists "+name, err, "forbidden")
		}
		_, err = s.StateResources(t.Context(), ann, "bad/name", engine.ResourceFilter{}, engine.Page{Limit: 1})
		wantRefused(t, "a name that is none", err, "invalid_name")
		if _, _, err := s.Resources(t.Context(), attempt, engine.ResourceFilter{}, engine.Page{Limit: 1}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an attempt searches: %v", err)
		}
	})
}

// Bytes that are not there any more are told of, not looked for without end; and nothing is read for somebody who has
// left, nor what cannot be recorded.
func TestDiffThatCannotBeRead(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		v := s.save(t, ann, "net", "A", docOf(1, "a", "one"))
		ctx, cancel := context.WithCancel(t.Context())
		db := &replacing{Store: s.store, once: cancel}
		_, err := s.serverOn(t, db).DiffState(ctx, ann, "net", 0, 0)
		wantRefused(t, "whoever asked has left", err, "interrupted")
		mute := s.serverOn(t, &crashing{Store: s.store, count: func() int { return 0 }})
		_, diffed := mute.DiffState(t.Context(), ann, "net", 0, 0)
		_, read := mute.StateOutputs(t.Context(), ann, "net")
		if !errors.Is(diffed, errCrash) || !errors.Is(read, errCrash) {
			t.Errorf("what cannot be recorded is read: %v, %v", diffed, read)
		}
		keys, err := keyring.NewPlatform(redact.NewSecret(base64.StdEncoding.EncodeToString(noise(32))))
		if err != nil {
			t.Fatal(err)
		}
		config := s.config(t, s.store)
		config.Keys = keys
		_, err = engine.New(config).DiffState(t.Context(), ann, "net", 0, 0)
		wantRefused(t, "without the key", err, "key_missing")
		s.update(t, func(ctx context.Context, tx engine.Tx) error { return tx.DeleteObject(ctx, v.ID) })
		_, diff := s.DiffState(t.Context(), ann, "net", 0, 0)
		_, outputs := s.StateOutputs(t.Context(), ann, "net")
		s.save(t, ann, "net", "B", docOf(2, "a", "one"))
		_, since := s.DiffState(t.Context(), ann, "net", 0, 0) // never shown as if everything were new
		for what, err := range map[string]error{"diff": diff, "outputs": outputs, "diff since it": since} {
			wantRefused(t, what+" without its bytes", err, "object_missing")
		}
	})
}

// listing counts the lists of resources that are stored.
type listing struct {
	engine.Store
	stored atomic.Int64
}

func (l *listing) Update(ctx context.Context, fn func(engine.Tx) error) error {
	return l.Store.Update(ctx, func(tx engine.Tx) error { return fn(listingTx{tx, l}) })
}

type listingTx struct {
	engine.Tx
	of *listing
}

func (l listingTx) SetResources(ctx context.Context, org, stateID string, rs []state.Resource, list state.List) error {
	l.of.stored.Add(1)
	return l.Tx.SetResources(ctx, org, stateID, rs, list)
}

// A save that changes no resource does not store their list again: most are of that kind.
func TestSameListIsNotStoredAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *states) {
		ann := s.user("ann", access.Operator)
		db := &listing{Store: s.store}
		server := s.serverOn(t, db)
		for i, c := range []struct {
			document string
			stored   int64
		}{{docOf(1, "a", "one"), 1}, {docOf(2, "b", "one"), 1}, {docOf(3, "b", "one", "two"), 2}, {docOf(4, "c", "one", "two"), 2}} {
			if _, err := server.WriteState(t.Context(), ann, "net", write("", c.document)); err != nil {
				t.Fatal(err)
			}
			if got := db.stored.Load(); got != c.stored {
				t.Errorf("after save %d: the list was stored %d times, want %d", i+1, got, c.stored)
			}
		}
		if got := s.found(t, ann, engine.ResourceFilter{}); got != "net:t.one net:t.two" {
			t.Errorf("listed: %q", got)
		}
	})
}
