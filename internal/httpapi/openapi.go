package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
)

// document is the OpenAPI document, written out when it is first asked for: every route is mounted by then.
type document struct {
	once       sync.Once
	json, yaml []byte
	err        error
}

func (a *API) mountOpenAPI() {
	a.document = &document{}
	for _, d := range []struct{ suffix, contentType string }{{"json", "application/openapi+json"}, {"yaml", "application/openapi+yaml"}} {
		doc := huma.Operation{
			OperationID: "openapi-" + d.suffix, Summary: "This description as " + strings.ToUpper(d.suffix), Tags: []string{"ops"},
			Responses: map[string]*huma.Response{"200": {Description: "OpenAPI 3.1", Content: map[string]*huma.MediaType{d.contentType: {Schema: &huma.Schema{}}}}},
		}
		a.handle(http.MethodGet, "/api/openapi."+d.suffix, access.Public, doc, func(w http.ResponseWriter, _ *http.Request, _ access.Actor) error {
			asJSON, asYAML, err := a.OpenAPI()
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", d.contentType)
			if d.suffix == "yaml" {
				asJSON = asYAML
			}
			_, err = w.Write(asJSON)
			return err
		})
	}
}

// OpenAPI is the description of every route, as JSON and as YAML.
func (a *API) OpenAPI() (asJSON, asYAML []byte, err error) {
	d := a.document
	d.once.Do(func() {
		o := a.huma.OpenAPI()
		// Huma declares its own error's shape beside ours; no answer has it.
		delete(o.Components.Schemas.Map(), "ErrorModel")
		delete(o.Components.Schemas.Map(), "ErrorDetail")
		if d.json, d.err = json.Marshal(o); d.err != nil {
			return
		}
		d.yaml, d.err = o.YAML()
	})
	if d.err != nil {
		return nil, nil, fmt.Errorf("write the OpenAPI document out: %w", d.err)
	}
	return d.json, d.yaml, nil
}
