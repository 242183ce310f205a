package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store"
)

const awsProvider = "registry.opentofu.org/hashicorp/aws"

func newResource(address string) state.Resource {
	kind, name, _ := strings.Cut(address, ".")
	return state.Resource{Address: address, Mode: state.ModeManaged, Type: kind, Name: name, Provider: awsProvider, Instances: 1}
}

func byAddress(rs ...state.Resource) []state.Resource {
	slices.SortFunc(rs, func(a, b state.Resource) int { return strings.Compare(a.Address, b.Address) })
	return rs
}

// listed makes a state with a document and its list.
func (w world) listed(t *testing.T, s *store.Store, name, hash string, rs ...state.Resource) state.State {
	t.Helper()
	st := w.newState(name)
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateState(ctx, st); err != nil {
			return err
		}
		v := newVersion(st, 1)
		if err := tx.PutVersion(ctx, v); err != nil {
			return err
		}
		st.Versions, st.Head = 1, &v
		if err := tx.UpdateState(ctx, st); err != nil {
			return err
		}
		return tx.SetResources(ctx, st.Org, st.ID, byAddress(rs...), state.List{Hash: hash})
	})
	return st
}

func found(t *testing.T, s *store.Store, f engine.ResourceFilter, limit int) []string {
	t.Helper()
	var got []string
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got = names(all(t, limit, func(p engine.Page) ([]engine.StateResource, string, error) { return tx.Resources(ctx, f, p) }),
			func(r engine.StateResource) string { return r.State + " " + r.Address })
		return nil
	})
	return got
}

func resources(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	data := state.Resource{
		Address: `module.m["é"].data.http.x`, Module: `module.m["é"]`, Mode: state.ModeData, Type: "http", Name: "x",
		Provider: "registry.opentofu.org/hashicorp/HTTP", Instances: 12,
	}
	net := w.listed(t, s, "net", "1", newResource("aws_subnet.b"), newResource("aws_subnet.a_1"), newResource("aws_vpc.main"), data)
	app := w.listed(t, s, "app", "2", newResource("aws_subnet.b"), newResource("aws_instance.web"))
	other := newWorldNamed(t, s, "other")
	other.listed(t, s, "net", "3", newResource("aws_subnet.theirs"))

	got, err := readState(t, s, w.org.ID, "net")
	if err != nil || got.List.Hash != "1" || got.List.Truncated {
		t.Errorf("the state says of its list %+v, %v", got.List, err)
	}
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		items, _, err := tx.Resources(ctx, engine.ResourceFilter{Org: w.org.ID, StateID: net.ID, Query: "É"}, engine.Page{Limit: 5})
		same(t, "letters beyond ASCII are as they are", len(items), 0)
		if err != nil {
			return err
		}
		items, _, err = tx.Resources(ctx, engine.ResourceFilter{Org: w.org.ID, StateID: net.ID, Query: "é"}, engine.Page{Limit: 5})
		same(t, "one resource", items, []engine.StateResource{{State: "net", Resource: data}})
		return err
	})
	// What has one address is in order of the states' ids.
	one, two := "net aws_subnet.b", "app aws_subnet.b"
	if app.ID < net.ID {
		one, two = two, one
	}
	for _, c := range []struct {
		what string
		f    engine.ResourceFilter
		want []string
	}{
		{"all", engine.ResourceFilter{}, []string{"app aws_instance.web", "net aws_subnet.a_1", one, two, "net aws_vpc.main", `net module.m["é"].data.http.x`}},
		{"a part of the address", engine.ResourceFilter{Query: "SUBNET"}, []string{"net aws_subnet.a_1", one, two}},
		{"a part of the provider", engine.ResourceFilter{Query: "hashicorp/http"}, []string{`net module.m["é"].data.http.x`}},
		{"what LIKE takes for any character", engine.ResourceFilter{Query: "t.a_"}, []string{"net aws_subnet.a_1"}},
		{"what LIKE takes for anything", engine.ResourceFilter{Query: "%"}, []string{}},
		{"a type", engine.ResourceFilter{Type: "aws_subnet"}, []string{"net aws_subnet.a_1", one, two}},
		{"a type and a part", engine.ResourceFilter{Type: "aws_subnet", Query: ".b"}, []string{one, two}},
		{"a part of a type", engine.ResourceFilter{Type: "aws_sub"}, []string{}},
		{"one state", engine.ResourceFilter{StateID: net.ID}, []string{"net aws_subnet.a_1", "net aws_subnet.b", "net aws_vpc.main", `net module.m["é"].data.http.x`}},
		{"one state and a type", engine.ResourceFilter{StateID: net.ID, Type: "aws_vpc", Query: "main"}, []string{"net aws_vpc.main"}},
		{"no organization", engine.ResourceFilter{Org: "org_none"}, []string{}},
	} {
		if c.f.Org == "" {
			c.f.Org = w.org.ID
		}
		for _, limit := range []int{1, 2, 500} {
			same(t, fmt.Sprintf("%s, %d at a time", c.what, limit), found(t, s, c.f, limit), c.want)
		}
	}
}

// replaceResources: a list takes the place of the one before, whatever the two have in common.
func replaceResources(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	many := func(from, to int) []state.Resource {
		var rs []state.Resource
		for i := from; i < to; i++ {
			rs = append(rs, newResource(fmt.Sprintf("aws_subnet.n%04d", i)))
		}
		return rs
	}
	changed := many(0, 450)
	for i := range changed {
		changed[i].Instances = int64(i % 2)
	}
	st := w.listed(t, s, "net", "")
	w.listed(t, s, "beside", "x", many(0, 3)...)
	for i, list := range [][]state.Resource{many(0, 450), many(0, 450), many(1, 451), many(200, 1400), changed, many(400, 401), nil, many(7, 8)} {
		update(t, s, func(ctx context.Context, tx engine.Tx) error {
			return tx.SetResources(ctx, st.Org, st.ID, list, state.List{Hash: fmt.Sprint(i), Truncated: i == 2})
		})
		var got []state.Resource
		view(t, s, func(ctx context.Context, tx engine.Tx) error {
			got = nil
			for _, r := range all(t, 400, func(p engine.Page) ([]engine.StateResource, string, error) {
				return tx.Resources(ctx, engine.ResourceFilter{Org: w.org.ID, StateID: st.ID}, p)
			}) {
				got = append(got, r.Resource)
			}
			return nil
		})
		same(t, fmt.Sprintf("list %d", i), got, list)
		now, err := readState(t, s, w.org.ID, "net")
		if err != nil || now.List != (state.List{Hash: fmt.Sprint(i), Truncated: i == 2}) {
			t.Errorf("after list %d the state says %+v, %v", i, now.List, err)
		}
	}
	same(t, "the state beside it", len(found(t, s, engine.ResourceFilter{Org: w.org.ID, Query: "n000"}, 500)), 4)
	refused(t, s, fault.NotFound, "the list of no state", func(ctx context.Context, tx engine.Tx) error {
		return tx.SetResources(ctx, w.org.ID, "sta_none", nil, state.List{})
	})
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.DeleteVersion(ctx, st.ID, 1); err != nil {
			return err
		}
		return tx.PurgeState(ctx, st.ID)
	})
	same(t, "after the purge", len(found(t, s, engine.ResourceFilter{Org: w.org.ID}, 500)), 3)
}

// unlistedStates are those with a document, not deleted, whose list was not made.
func unlistedStates(t *testing.T, s *store.Store) {
	w := newWorld(t, s)
	var want []string
	for i := range 4 {
		want = append(want, w.listed(t, s, fmt.Sprint("old", i), "").ID)
	}
	slices.Sort(want)
	w.listed(t, s, "listed", "1")
	gone := w.listed(t, s, "gone", "")
	gone.DeletedAt = now
	update(t, s, func(ctx context.Context, tx engine.Tx) error {
		if err := tx.CreateState(ctx, w.newState("empty")); err != nil {
			return err
		}
		return tx.UpdateState(ctx, gone)
	})
	view(t, s, func(ctx context.Context, tx engine.Tx) error {
		got, err := tx.UnlistedStates(ctx, "", 3)
		same(t, "the first", got, want[:3])
		if err != nil {
			return err
		}
		got, err = tx.UnlistedStates(ctx, want[2], 3)
		same(t, "those after", got, want[3:])
		return err
	})
}
