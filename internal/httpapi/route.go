package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
)

// DefaultBodyBytes is the most that a route takes unless it says otherwise.
const DefaultBodyBytes = 1 << 20

// operationTimeout bounds routes that decode one JSON document and answer one; a long poll is held for 30 s.
const operationTimeout = 60 * time.Second

// Route is one way into the server, as declared.
type Route struct {
	Method, Path string
	Permission   access.Permission

	or      access.Permission // that is enough as well; "" for none
	maxBody int64
	backend bool // the state protocol
	signsIn bool // reads a credential from its body
	decoded bool // by huma
}

// Permissions are the permissions of which an actor needs one.
func (r Route) Permissions() []access.Permission {
	if r.or == "" {
		return []access.Permission{r.Permission}
	}
	return []access.Permission{r.Permission, r.or}
}

// Documented reports whether OpenAPI can say the route's method.
func (r Route) Documented() bool { return r.Method != "LOCK" && r.Method != "UNLOCK" }

type option func(*Route)

// backend marks a route of the state protocol: Basic authentication and attempts' tokens work, sessions do not.
func backend(r *Route) { r.backend = true }

// or names a second permission, either of which opens the route.
func or(p access.Permission) option { return func(r *Route) { r.or = p } }

// maxBody is the most bytes of a body that the route takes.
func maxBody(n int64) option { return func(r *Route) { r.maxBody = n } }

// signsIn marks a route that makes a session from what its body holds.
func signsIn(r *Route) { r.signsIn = true }

// decoded marks a route whose body huma reads.
func decoded(r *Route) { r.decoded = true }

// route mounts an operation that huma decodes and encodes.
func route[I, O any](a *API, op huma.Operation, p access.Permission, h func(ctx context.Context, actor access.Actor, in *I) (*O, error), opts ...option) {
	refuseHidden(typeFor[I]())
	rt := a.declare(op.Method, op.Path, p, op.MaxBodyBytes, append(opts, decoded))
	op.MaxBodyBytes = rt.maxBody + 1 // huma refuses a body of exactly its limit
	op.BodyReadTimeout = -1          // the guard's own deadlines apply; huma's would end a long poll
	describe(&op, rt, a.huma.OpenAPI().Components.Schemas)
	op.Metadata = map[string]any{routeKey: rt}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, actorOf(ctx), in)
		if err != nil {
			return nil, a.problemOf(ctx, err)
		}
		return out, nil
	})
}

// refuseHidden stops the start where huma would silently leave a part of an input empty.
func refuseHidden(input reflect.Type) {
	for i := range input.NumField() {
		if f := input.Field(i); f.Anonymous && !f.IsExported() {
			panic(fmt.Sprintf("the input %s embeds %s, which huma does not see: export it", input, f.Name))
		}
	}
}

// handle mounts a plain handler: for bodies that stream, and for methods and answers that huma cannot say. doc
// describes it for the OpenAPI document, with its request body and responses; LOCK and UNLOCK stay out of it. An
// error that h returns is answered as a problem unless the answer has begun.
func (a *API) handle(method, pattern string, p access.Permission, doc huma.Operation, h func(w http.ResponseWriter, r *http.Request, actor access.Actor) error, opts ...option) {
	rt := a.declare(method, pattern, p, doc.MaxBodyBytes, opts)
	doc.Method, doc.Path = method, pattern
	if rt.Documented() {
		describe(&doc, rt, a.huma.OpenAPI().Components.Schemas)
		pathParameters(&doc)
		a.huma.OpenAPI().AddOperation(&doc)
	}
	a.mux.Handle(method+" "+pattern, a.guard(rt, h))
}

func (a *API) declare(method, path string, p access.Permission, body int64, opts []option) Route {
	rt := Route{Method: method, Path: path, Permission: p, maxBody: body}
	for _, o := range opts {
		o(&rt)
	}
	if rt.maxBody == 0 {
		rt.maxBody = DefaultBodyBytes
	}
	a.routes = append(a.routes, rt)
	return rt
}

// Routes lists every route that is mounted.
func (a *API) Routes() []Route { return append([]Route(nil), a.routes...) }

// schema declares T for the description of a plain handler.
func schema[T any](a *API) *huma.Schema {
	return huma.SchemaFromType(a.huma.OpenAPI().Components.Schemas, typeFor[T]())
}

// describe adds what every operation has: the permission, the sign-in and the shape of refusals.
func describe(op *huma.Operation, rt Route, schemas huma.Registry) {
	op.Extensions = maps.Clone(op.Extensions)
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	op.Extensions["x-permission"] = string(rt.Permission)
	if rt.or != "" {
		op.Extensions["x-permission-or"] = string(rt.or)
	}
	switch {
	case rt.Permission == access.Public:
		op.Security = []map[string][]string{}
	case rt.backend:
		op.Security = []map[string][]string{{"token": {}}, {"basic": {}}}
	case rt.Permission == access.AgentWork:
		op.Security = []map[string][]string{{"token": {}}}
	default:
		op.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{Description: "A refusal or failure", Content: map[string]*huma.MediaType{
		problemType: {Schema: schemas.Schema(typeFor[api.Problem](), true, "Problem")},
	}}
}

// pathParameters declares the parameters of the path that doc does not.
func pathParameters(doc *huma.Operation) {
	for part := range strings.SplitSeq(doc.Path, "/") {
		name, isParam := strings.CutPrefix(part, "{")
		if !isParam {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		known := false
		for _, p := range doc.Parameters {
			known = known || p.In == "path" && p.Name == name
		}
		if !known {
			doc.Parameters = append(doc.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
}

// Keys of values that travel with a request.
type contextKey int

const (
	actorKey contextKey = iota
	requestKey
)

const routeKey = "route"

func actorOf(ctx context.Context) access.Actor {
	actor, _ := ctx.Value(actorKey).(access.Actor)
	return actor
}

// adapter puts huma's operations behind the same guard as every other route.
type adapter struct{ a *API }

func (d adapter) Handle(op *huma.Operation, next func(huma.Context)) {
	rt := op.Metadata[routeKey].(Route) // only route registers operations
	d.a.mux.Handle(op.Method+" "+op.Path, d.a.guard(rt, func(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), actorKey, actor), operationTimeout)
		defer cancel()
		next(humago.NewContext(op, r.WithContext(ctx), w))
		return nil
	}))
}

func (d adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.a.mux.ServeHTTP(w, r) }

func newHuma(a *API) huma.API {
	c := huma.DefaultConfig("Holdfast", "1")
	c.Info.Description = "Plans, approves and applies OpenTofu configurations, and keeps their states. " +
		"Each operation names the permission it needs (x-permission), and one that is enough as well (x-permission-or). Errors are application/problem+json with a stable code."
	c.CreateHooks = nil // no $schema links in answers
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.Transformers = []huma.Transformer{transform}
	c.RejectUnknownQueryParameters = true // a mistyped filter must not list everything
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer", Description: "A personal token, an agent's token on agent routes, or an attempt's token on its state."},
		"basic":   {Type: "http", Scheme: "basic", Description: "Any user name, a token as the password. Only on the state protocol."},
		"session": {Type: "apiKey", In: "cookie", Name: "holdfast_session", Description: "The UI's session; changes need the header X-Holdfast-CSRF."},
	}
	return huma.NewAPI(c, adapter{a})
}
