package store

import (
	"context"
	"strings"

	"holdfast.dev/holdfast/internal/access"
)

func (t *tx) Allocation(ctx context.Context, org string) (access.Allocation, error) {
	text, err := t.q.Allocation(ctx, org)
	return allocation(text), t.err("reading", "permission", err)
}

func (t *tx) Allocate(ctx context.Context, org string, p access.Permission, r access.Role) error {
	return t.err("storing", "permission", t.q.Allocate(ctx, org, string(p), string(r)))
}

// allocation reads what the queries put together: a permission and a role each, nil where there are none.
func allocation(text string) access.Allocation {
	if text == "" {
		return nil
	}
	out := access.Allocation{}
	for row := range strings.SplitSeq(text, ",") {
		p, r, _ := strings.Cut(row, " ")
		out[access.Permission(p)] = access.Role(r)
	}
	return out
}
