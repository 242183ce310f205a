package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

func (a *API) mountSource() {
	doc := huma.Operation{
		OperationID: "upload-source", Tags: []string{"runs"}, Summary: "Upload a packed configuration",
		Description: "The body is a zstd archive. A run is then started with the id of the answer.",
		RequestBody: binary("application/zstd"),
		Responses:   map[string]*huma.Response{"201": {Description: "Stored", Content: map[string]*huma.MediaType{"application/json": {Schema: schema[api.Source](a)}}}},
	}
	a.handle(http.MethodPost, "/api/sources", access.RunStart, doc, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		o, err := a.engine.UploadSource(r.Context(), actor, r.Body)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusCreated, api.Source{ID: o.ID, SHA256: o.SHA256, Size: o.Size})
	}, maxBody(a.engine.Limits().SourceMaxBytes))
}

// binary describes a body that is bytes.
func binary(mediaType string) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: binaryContent(mediaType)}
}

func binaryContent(mediaType string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
}

// writeJSON answers one document from a plain handler.
func writeJSON(w http.ResponseWriter, status int, doc any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(doc)
}
