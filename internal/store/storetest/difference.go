package storetest

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

// refusesText: PostgreSQL takes neither, SQLite both.
func refusesText(t *testing.T, s *store.Store) {
	for what, text := range map[string]string{"NUL": "a\x00b", "not UTF-8": "a\xffb"} {
		refused(t, s, fault.Invalid, what+" in a statement", func(ctx context.Context, tx engine.Tx) error {
			return tx.SetSettingOnce(ctx, "key", text)
		})
		err := s.View(t.Context(), func(tx engine.Tx) error {
			_, err := tx.Setting(t.Context(), text)
			return err
		})
		wantKind(t, what+" in a query of one", err, fault.Invalid)
		err = s.View(t.Context(), func(tx engine.Tx) error {
			_, err := tx.AuditFrom(t.Context(), text, 1, 10)
			return err
		})
		wantKind(t, what+" in a query of many", err, fault.Invalid)
	}
	if hasSetting(t, s, "key") {
		t.Error("a refused setting is there")
	}
}

func namesSortByByte(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	// A language's order would be a, A, b, B, with _ and - left out at first.
	want := []string{"A", "B", "Z1", "a", "a-b", "a.b", "a_b", "ab", "b", "ä", "日本"}
	for i := range want {
		u := access.UserRecord{ID: id.New(id.User, now), Org: w.org.ID, Name: want[(i*7)%len(want)], Role: access.Viewer, CreatedAt: now}
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateUser(ctx, u) })
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got := all(t, 2, func(p engine.Page) ([]access.UserRecord, string, error) { return tx.Users(ctx, w.org.ID, p) })
		want := slices.Sorted(slices.Values(append(want, w.user.Name)))
		same(t, "users", names(got, func(u access.UserRecord) string { return u.Name }), want)
		return nil
	})
}

func searchTakesBytes(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	for _, name := range []string{"Net.Prod", "net_prod", "netxprod", "100-percent", "ab!c"} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateState(ctx, w.newState(name)) })
	}
	for query, want := range map[string][]string{
		"":        {"100-percent", "Net.Prod", "ab!c", "net_prod", "netxprod"},
		"net":     {"Net.Prod", "net_prod", "netxprod"},
		"NET":     {"Net.Prod", "net_prod", "netxprod"},
		"t_p":     {"net_prod"},
		"t.P":     {"Net.Prod"},
		"%":       {},
		"_":       {"net_prod"},
		"!":       {"ab!c"},
		`\`:       {},
		"b!c":     {"ab!c"},
		"nothing": {},
	} {
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, _, err := tx.States(ctx, engine.StateFilter{Org: w.org.ID, Query: query}, engine.Page{Limit: 100})
			same(t, "states with "+query, names(got, func(s state.State) string { return s.Name }), want)
			return err
		})
	}
	err := s.View(t.Context(), func(tx engine.Tx) error {
		_, _, err := tx.States(t.Context(), engine.StateFilter{Org: w.org.ID, Query: string(bytes.Repeat([]byte("a"), 60_000))}, engine.Page{Limit: 1})
		return err
	})
	wantKind(t, "a search longer than any name", err, fault.Invalid)
}

func emptyIsNotMissing(t *testing.T, s *store.Store) {
	o := engine.Object{ID: id.New(id.Object, now), Org: "org_x", Kind: "plan", CreatedAt: now, Inline: []byte{}, Wrapped: []byte{}}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.SetSettingOnce(ctx, "empty", ""); err != nil {
			return err
		}
		return tx.AttachObject(ctx, o)
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		value, err := tx.Setting(ctx, "empty")
		same(t, "an empty setting", value, "")
		if err != nil {
			return err
		}
		got, err := tx.Object(ctx, o.ID)
		same(t, "an object of no bytes", got, o)
		return err
	})
	refused(t, s, fault.Conflict, "a setting whose value is empty, again", func(ctx context.Context, tx engine.Tx) error {
		return tx.SetSettingOnce(ctx, "empty", "x")
	})
}

func largeBytes(t *testing.T, s *store.Store) {
	data := make([]byte, 256<<10)
	for i := range data {
		data[i] = byte(i * 7)
	}
	inline := bytes.Repeat(data, 8)
	o := engine.Object{ID: id.New(id.Object, now), Kind: "source", Inline: inline, Wrapped: []byte{0, 255, 0}, CreatedAt: now}
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.PutChunk(ctx, "obj_x", 0, data, now); err != nil {
			return err
		}
		return tx.AttachObject(ctx, o)
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.Chunks(ctx, "obj_x", 0, 1)
		if err != nil || !bytes.Equal(got[0], data) {
			t.Errorf("chunk: %d bytes, error %v; want the %d bytes given", len(bytes.Join(got, nil)), err, len(data))
		}
		back, err := tx.Object(ctx, o.ID)
		if err != nil || !bytes.Equal(back.Inline, inline) || !bytes.Equal(back.Wrapped, o.Wrapped) {
			t.Errorf("object: %d bytes, error %v; want the %d bytes given", len(back.Inline), err, len(inline))
		}
		return nil
	})
	refused(t, s, fault.TooLarge, "a chunk of a byte too many", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutChunk(ctx, "obj_x", 1, append(data, 0), now)
	})
}

func times(t *testing.T, s *store.Store) {
	cet := time.FixedZone("CET", 3600)
	for name, c := range map[string]struct{ in, want time.Time }{
		"zero":                {},
		"microseconds":        {now, now},
		"nanoseconds":         {now.Add(789), now},
		"elsewhere":           {now.In(cet), now},
		"before 1970":         {time.UnixMicro(-1).UTC(), time.UnixMicro(-1).UTC()},
		"in a thousand years": {time.UnixMicro(33_000_000_000_000_001).UTC(), time.UnixMicro(33_000_000_000_000_001).UTC()},
	} {
		o := access.Organization{ID: id.New(id.Organization, now), Name: name, CreatedAt: c.in}
		update(t, s, func(ctx context.Context, tx engine.Tx) error { return tx.CreateOrganization(ctx, o) })
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got, err := tx.Organization(ctx, name)
			same(t, name, got.CreatedAt, c.want)
			return err
		})
	}
}

func referencesHold(t *testing.T, s *store.Store) {
	refused(t, s, fault.Conflict, "a user of no organization", func(ctx context.Context, tx engine.Tx) error {
		return tx.CreateUser(ctx, access.UserRecord{ID: "usr_x", Org: "org_x", Name: "x"})
	})
	refused(t, s, fault.Conflict, "a version of no state", func(ctx context.Context, tx engine.Tx) error {
		return tx.PutVersion(ctx, state.Version{ID: "wri_x", StateID: "sta_x", Number: 1})
	})
}

func pagesAreChecked(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	for range 3 {
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			return tx.CreateState(ctx, w.newState(id.New("x", now)))
		})
	}
	list := func(p engine.Page) (string, error) {
		var next string
		err := s.View(t.Context(), func(tx engine.Tx) error {
			var err error
			_, next, err = tx.States(t.Context(), engine.StateFilter{Org: w.org.ID}, p)
			return err
		})
		return next, err
	}
	for _, limit := range []int{-1, 0, 501} {
		_, err := list(engine.Page{Limit: limit})
		wantKind(t, "a limit out of bounds", err, fault.Invalid)
	}
	next, err := list(engine.Page{Limit: 500})
	if err != nil || next != "" {
		t.Errorf("the only page: next %q, error %v; want no next", next, err)
	}
	next, err = list(engine.Page{Limit: 2})
	if err != nil || next == "" {
		t.Fatalf("the first page of two: next %q, error %v; want a next", next, err)
	}
	for _, cursor := range []string{"x", "%%%", next + "!", "AAAA", "c3RhdGVz"} {
		_, err := list(engine.Page{Limit: 2, Cursor: cursor})
		same(t, "code of cursor "+cursor, fault.Code(err), "invalid_cursor")
	}
	err = s.View(t.Context(), func(tx engine.Tx) error {
		_, _, err := tx.Versions(t.Context(), "sta_x", false, engine.Page{Limit: 2, Cursor: next})
		return err
	})
	same(t, "code of another list's cursor", fault.Code(err), "invalid_cursor")
	err = s.View(t.Context(), func(tx engine.Tx) error {
		_, _, err := tx.Stacks(t.Context(), w.org.ID, "", engine.Page{Limit: 2, Cursor: next})
		return err
	})
	same(t, "code of the cursor of another list by name", fault.Code(err), "invalid_cursor")
	err = s.View(t.Context(), func(tx engine.Tx) error {
		_, _, err := tx.Versions(t.Context(), "sta_x", false, engine.Page{Limit: 2, Cursor: "dmVyc2lvbnMAeA"}) // versions, x
		return err
	})
	same(t, "code of a number's cursor without a number", fault.Code(err), "invalid_cursor")
}
