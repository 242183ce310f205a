package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/engine"
)

type auditInput struct {
	Paging
	Action string `query:"action" maxLength:"64" doc:"An action such as run.approve, or all that begin alike: run."`
	Actor  string `query:"actor" maxLength:"64" doc:"Id of who acted."`
	Object string `query:"object" maxLength:"256" doc:"Name or id of what it was done to."`
}

type verifyInput struct {
	Anchor string `query:"anchor" maxLength:"128" doc:"What an earlier verify answered: proves that the end was not cut."`
}

func (a *API) mountAudit() {
	route(a, huma.Operation{OperationID: "list-audit", Method: http.MethodGet, Path: "/api/audit", Tags: []string{"audit"}, Summary: "List audit records, newest first"},
		access.AuditRead, func(ctx context.Context, actor access.Actor, in *auditInput) (*list[api.AuditRecord], error) {
			f := engine.AuditFilter{Action: in.Action, Actor: in.Actor, Object: in.Object}
			rows, next, err := a.engine.Audit(ctx, actor, f, in.page())
			return listOf(rows, next, err, showRecord)
		})
	route(a, huma.Operation{
		OperationID: "verify-audit", Method: http.MethodGet, Path: "/api/audit/verify", Tags: []string{"audit"},
		Summary: "Go through the whole audit chain and check it",
	},
		access.AuditRead, func(ctx context.Context, actor access.Actor, in *verifyInput) (*one[api.AuditVerified], error) {
			v, err := a.engine.VerifyAudit(ctx, actor, in.Anchor)
			return oneOf(api.AuditVerified{Intact: v.BrokenAt == 0, Records: v.Records, Unkeyed: v.Unkeyed, BrokenAt: v.BrokenAt, Reason: v.Reason, Anchor: v.Anchor}, err)
		})
	doc := huma.Operation{
		OperationID: "export-audit", Tags: []string{"audit"}, Summary: "All audit records, oldest first, one JSON document a line",
		Responses: map[string]*huma.Response{"200": {Description: "Records", Content: map[string]*huma.MediaType{"application/x-ndjson": {Schema: schema[api.AuditRecord](a)}}}},
	}
	a.handle(http.MethodGet, "/api/audit/export", access.AuditRead, doc, a.exportAudit)
}

func (a *API) exportAudit(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.ndjson"`)
	buffered := bufio.NewWriterSize(w, 64*1024)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	if err := a.engine.EachAudit(r.Context(), actor, 1, func(rec audit.Record) error { return lines.Encode(showRecord(rec)) }); err != nil {
		return err
	}
	return buffered.Flush()
}

func showRecord(r audit.Record) api.AuditRecord {
	return api.AuditRecord{
		Seq: r.Seq, At: r.At.UTC(), ActorKind: r.ActorKind, ActorID: r.ActorID, ActorName: r.ActorName, Action: r.Action,
		Object: r.Object, Data: r.Data, RequestID: r.RequestID, Hash: r.Hash,
	}
}
