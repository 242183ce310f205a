package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

type versionsInput struct {
	StateName
	Paging
	Quarantined bool `query:"quarantined" doc:"Only the versions that were refused and kept aside."`
}

func (a *API) mountVersion() {
	route(a, huma.Operation{
		OperationID: "list-state-versions", Method: http.MethodGet, Path: "/api/tf-states/{name}/versions", Tags: []string{"state"},
		Summary: "List a state's versions, newest first",
	},
		access.StateList, func(ctx context.Context, actor access.Actor, in *versionsInput) (*list[api.StateVersion], error) {
			s, rows, next, err := a.engine.StateVersions(ctx, actor, in.Name, in.Quarantined, in.page())
			return listOf(rows, next, err, func(v state.Version) api.StateVersion { return showVersion(s, v) })
		})
	content := huma.Operation{
		OperationID: "download-state-version", Tags: []string{"state"}, Summary: "The document of one version, byte for byte",
		Responses: map[string]*huma.Response{"200": {Description: "The document", Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Description: "A state document."}},
		}}},
	}
	a.handle(http.MethodGet, "/api/tf-states/{name}/versions/{version}/content", access.StateRead, content, a.downloadVersion)
	a.mountVersionChanges()
}

// mountVersionChanges mounts what makes another version current.
func (a *API) mountVersionChanges() {
	type change func(ctx context.Context, actor access.Actor, name string, number int64) (state.Version, error)
	for _, c := range []struct {
		id, verb, summary string
		change            change
	}{
		{"rollback-state", "rollback", "Make an older version current again, as a new version with a serial of its own", a.engine.RollbackState},
		{"accept-state-version", "accept", "Make a quarantined version current", a.engine.AcceptVersion},
	} {
		route(a, huma.Operation{OperationID: c.id, Method: http.MethodPost, Path: "/api/tf-states/{name}/" + c.verb, Tags: []string{"state"}, Summary: c.summary},
			access.StateWrite, func(ctx context.Context, actor access.Actor, in *pickVersionInput) (*one[api.StateVersion], error) {
				v, err := c.change(ctx, actor, in.Name, in.Body.Version)
				return oneOf(showVersion(state.State{Head: &v}, v), err)
			})
	}
	document := huma.Operation{
		Parameters: []*huma.Param{{
			Name: replaceDeleted, In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean},
			Description: "Purge a deleted state of that name, which could still be restored; needs tf_state:manage. Without it, such a name is refused.",
		}},
		OperationID: "import-state", Tags: []string{"state"}, Summary: "Make a state of a document from elsewhere; a name in use is refused",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Description: "A state document."}}}},
		Responses: map[string]*huma.Response{"201": {Description: "The state's first version", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schema[api.StateVersion](a)},
		}}},
	}
	a.handle(http.MethodPost, "/api/tf-states/{name}/import", access.StateWrite, document, a.importState, maxBody(stateBodyBytes))
}

// replaceDeleted is the parameter of an import.
const replaceDeleted = "replace_deleted"

type pickVersionInput struct {
	StateName
	Body api.PickVersion
}

func (a *API) importState(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	sum, err := contentMD5(r)
	if err != nil {
		return err
	}
	replace := r.URL.Query().Get(replaceDeleted)
	if replace != "" && replace != "true" && replace != "false" {
		return fault.New(fault.Invalid, "invalid_request", "The parameter %s is true or false.", replaceDeleted)
	}
	v, err := a.engine.ImportState(r.Context(), actor, r.PathValue("name"), engine.StateImport{
		StateWrite: engine.StateWrite{MD5: sum, Size: r.ContentLength, Body: r.Body}, ReplaceDeleted: replace == "true",
	})
	if err != nil {
		return err
	}
	answer, err := json.Marshal(showVersion(state.State{Head: &v}, v))
	if err != nil {
		return fmt.Errorf("encode the version: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer) // the client went away
	return nil
}

func (a *API) downloadVersion(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	number, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
	if err != nil || number < 1 {
		return fault.New(fault.Invalid, "invalid_version", "The version in the path is not a number from 1 on.")
	}
	name := r.PathValue("name")
	c, err := a.engine.StateVersionContent(r.Context(), actor, name, number)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%d.tfstate"`, name, number))
	return a.sendDocument(w, c)
}

func showVersion(s state.State, v state.Version) api.StateVersion {
	return api.StateVersion{
		Version: v.Number, Serial: serialOf(v.Serial), Lineage: v.Lineage, Size: v.Size, SHA256: v.SHA256, Source: string(v.Source),
		Quarantined: v.Quarantined, Current: s.Head != nil && s.Head.Number == v.Number, ToolVersion: v.Terraform, CreatedAt: v.CreatedAt.UTC(),
		CreatedBy: showHolder(v.By, engine.Life{Alive: "unknown"}), Key: api.Key{Kind: v.Key.Kind, Name: v.Key.Name, Version: v.Key.Version},
		ClientEncrypted: v.Encrypted, LockID: v.LockID,
	}
}
