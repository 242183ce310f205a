package client

import (
	"context"

	"holdfast.dev/holdfast/internal/api"
)

// AuditFilter narrows the audit log.
type AuditFilter struct {
	Action string
	Actor  string
	Object string
}

// Audit lists the audit log, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter, page Page) (api.List[api.AuditRecord], error) {
	return list[api.AuditRecord](ctx, c, path("audit"), filter("action", f.Action, "actor", f.Actor, "object", f.Object), page)
}

// VerifyAudit has the server check the chain. anchor is that of an earlier verify; with it, a cut end is found too.
func (c *Client) VerifyAudit(ctx context.Context, anchor string) (api.AuditVerified, error) {
	var out api.AuditVerified
	err := c.get(ctx, path("audit", "verify"), filter("anchor", anchor), &out)
	return out, err
}
