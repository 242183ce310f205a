package store

import (
	"context"
	"fmt"
	"strings"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/store/db"
)

// resourceBatch is how many rows one statement writes or deletes. SQLite's driver takes longer over each parameter the
// more of them a statement has, and each number of rows is a statement of its own to compile and keep.
const resourceBatch = 16

// resourcesAwaited is how many such statements travel together: a round trip each would keep the state locked for
// seconds, and all at once would be in memory together.
const resourcesAwaited = 32

// SetResources writes the rows that differ and no others: an apply that makes a resource saves once for it.
func (t *tx) SetResources(ctx context.Context, org, stateID string, rs []state.Resource, list state.List) error {
	have, err := t.q.ListedResources(ctx, stateID)
	if err != nil {
		return t.err("reading", "resource list", err)
	}
	gone, added := differentResources(have, rs)
	if len(gone) == len(have) {
		if len(have) > 0 {
			err = t.q.DropResources(ctx, stateID)
		}
	} else {
		err = t.dropResources(ctx, stateID, gone)
	}
	if err == nil {
		err = t.addResources(ctx, org, stateID, added)
	}
	if err != nil {
		return t.err("storing", "resource list", err)
	}
	n, err := t.changing(stateID, "storing", "state").SetStateResources(ctx, list.Hash, list.Truncated, stateID)
	return t.one("storing", "state", n, err)
}

// differentResources compares two lists that are sorted by address. A row that changed is both gone and added.
func differentResources(have []db.StateResource, want []state.Resource) (gone []string, added []state.Resource) {
	for len(have) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(have) > 0 && have[0].Address < want[0].Address:
			gone = append(gone, have[0].Address)
			have = have[1:]
		case len(have) == 0 || want[0].Address < have[0].Address:
			added = append(added, want[0])
			want = want[1:]
		default:
			if resource(have[0]) != want[0] {
				gone, added = append(gone, have[0].Address), append(added, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}
	return gone, added
}

func (t *tx) dropResources(ctx context.Context, stateID string, addresses []string) error {
	for i := 1; len(addresses) > 0; i++ {
		n := min(len(addresses), resourceBatch)
		args := []any{stateID}
		for _, a := range addresses[:n] {
			args = append(args, a)
		}
		addresses = addresses[n:]
		if err := t.resourceRows(ctx, i, "DELETE FROM state_resources WHERE state_id = $1 AND address IN "+placeholders(2, n), args); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) addResources(ctx context.Context, org, stateID string, rs []state.Resource) error {
	const columns = "state_id, address, org, module, mode, type, name, provider, instances"
	for i := 1; len(rs) > 0; i++ {
		n := min(len(rs), resourceBatch)
		var values strings.Builder
		var args []any
		for j, r := range rs[:n] {
			if j > 0 {
				values.WriteString(", ")
			}
			values.WriteString(placeholders(len(args)+1, 9))
			args = append(args, stateID, r.Address, org, r.Module, r.Mode, r.Type, r.Name, r.Provider, r.Instances)
		}
		rs = rs[n:]
		if err := t.resourceRows(ctx, i, "INSERT INTO state_resources ("+columns+") VALUES "+values.String(), args); err != nil {
			return err
		}
	}
	return nil
}

// resourceRows runs the nth of several statements.
func (t *tx) resourceRows(ctx context.Context, nth int, query string, args []any) error {
	if nth%resourcesAwaited != 0 {
		return t.later(ctx, "storing", "resource list", query, args...)
	}
	_, err := t.ExecContext(ctx, query, args...)
	return err
}

// placeholders are n of them in parentheses, from the first on.
func placeholders(first, n int) string {
	var b strings.Builder
	for i := range n {
		sep := ", "
		if i == 0 {
			sep = "("
		}
		fmt.Fprintf(&b, "%s$%d", sep, first+i)
	}
	return b.String() + ")"
}

func (t *tx) Resources(ctx context.Context, f engine.ResourceFilter, p engine.Page) ([]engine.StateResource, string, error) {
	g, err := pages("resources", 2, p)
	if err != nil {
		return nil, "", err
	}
	like, err := pattern(f.Query)
	if err != nil {
		return nil, "", err
	}
	rows, err := t.resources(ctx, f, g, like)
	if err != nil {
		return nil, "", t.err("listing", "resource", err)
	}
	return page(g, rows, func(r db.SearchResourcesRow) (engine.StateResource, error) {
		return engine.StateResource{State: r.StateName, Resource: resource(r.StateResource)}, nil
	}, func(r db.SearchResourcesRow) []string {
		return []string{r.StateResource.Address, r.StateResource.StateID}
	})
}

// resources reads one page and a row more, by the statement that has an index for what is asked.
func (t *tx) resources(ctx context.Context, f engine.ResourceFilter, g pager, like string) (rows []db.SearchResourcesRow, err error) {
	switch {
	case f.StateID != "":
		var of []db.StateResourcesRow
		of, err = t.q.StateResources(ctx, db.StateResourcesParams{StateID: f.StateID, After: g.text(0, ""), Kind: f.Type, Pattern: like, Count: g.count()})
		for _, r := range of {
			rows = append(rows, db.SearchResourcesRow(r))
		}
	case f.Type != "":
		var of []db.SearchResourcesOfTypeRow
		of, err = t.q.SearchResourcesOfType(ctx, db.SearchResourcesOfTypeParams{
			Org: f.Org, Kind: f.Type, Address: g.text(0, ""), StateID: g.text(1, ""), Pattern: like, Count: g.count(),
		})
		for _, r := range of {
			rows = append(rows, db.SearchResourcesRow(r))
		}
	default:
		rows, err = t.q.SearchResources(ctx, db.SearchResourcesParams{
			Org: f.Org, Address: g.text(0, ""), StateID: g.text(1, ""), Pattern: like, Count: g.count(),
		})
	}
	return rows, err
}

func (t *tx) UnlistedStates(ctx context.Context, after string, limit int) ([]string, error) {
	ids, err := t.q.UnlistedStates(ctx, after, int32(limit))
	return ids, t.err("listing", "state", err)
}

func resource(r db.StateResource) state.Resource {
	return state.Resource{
		Address: r.Address, Module: r.Module, Mode: r.Mode, Type: r.Type, Name: r.Name, Provider: r.Provider, Instances: r.Instances,
	}
}
