// Package httpapi serves the HTTP contract: it decodes a request, asks the engine, and encodes the answer. Each
// route declares its permission; who acts comes from the credential alone.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast.dev/holdfast/internal/engine"
)

// Config is what an API is made of. All fields but TrustedProxies are required.
type Config struct {
	Engine  *engine.Engine
	Log     *slog.Logger
	Now     func() time.Time
	Version string   // of Holdfast
	BaseURL *url.URL // where browsers reach the server; https makes the session cookie Secure

	UI             fs.FS          // index.html, and under assets/ files whose names change with their content
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	Metrics        *prometheus.Registry
}

// API is the handler of all routes.
type API struct {
	engine *engine.Engine
	log    *slog.Logger
	now    func() time.Time
	base   *url.URL
	ui     fs.FS

	mux     *http.ServeMux
	huma    huma.API
	routes  []Route
	handler http.Handler // mux with everything around it

	proxies    []netip.Prefix
	signIns    *limiter // wrong sign-ins, by address
	wrong      *limiter // wrong tokens, by address
	usage      *usage
	crossSite  *http.CrossOriginProtection
	metrics    *metrics
	copying    sync.Pool // of copyBytes each
	document   *document
	draining   context.Context //nolint:containedctx // its end is the signal that this server is going away
	startDrain context.CancelCauseFunc
}

// ErrShutdown is the cause of a context made by untilShutdown that ended because this server is going away.
var ErrShutdown = errors.New("the server is shutting down")

// New makes an API with all routes mounted.
func New(c Config) *API {
	a := &API{
		engine: c.Engine, log: c.Log, now: c.Now, base: c.BaseURL, ui: c.UI, proxies: c.TrustedProxies,
		mux: http.NewServeMux(), crossSite: http.NewCrossOriginProtection(), metrics: newMetrics(c.Metrics, c.Version),
		copying: sync.Pool{New: func() any { return new([copyBytes]byte) }},
		usage:   newUsage(),
		signIns: newLimiter(c.Now, 10, 6*time.Second), wrong: newLimiter(c.Now, 100, 100*time.Millisecond),
	}
	// A base URL is never refused as an origin: without it, a proxy that rewrites Host would lock browsers out.
	if err := a.crossSite.AddTrustedOrigin(c.BaseURL.Scheme + "://" + c.BaseURL.Host); err != nil {
		panic(fmt.Sprintf("the base URL is no origin: %v", err)) // the settings refuse such a URL
	}
	a.draining, a.startDrain = context.WithCancelCause(context.Background())
	a.huma = newHuma(a)

	a.mountOps()
	a.mountSession()
	a.mountToken()
	a.mountUser()
	a.mountPermission()
	a.mountAccount()
	a.mountAgent()
	a.mountAudit()
	a.mountKey()
	a.mountState()
	a.mountResource()
	a.mountStateDiff()
	a.mountStack()
	a.mountRun()
	a.mountAgentWork()
	a.mountOpenAPI()

	a.handler = a.around(http.HandlerFunc(a.dispatch))
	return a
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Drain ends long polls and streams, now and from now on, so that the server can be shut down without cutting a
// request short. Readiness says no from here on.
func (a *API) Drain() { a.startDrain(ErrShutdown) }

// untilShutdown gives a context that also ends when the server is shutting down, with the cause ErrShutdown. Long
// polls and streams wait on it; a long poll that it ends answers 204.
func (a *API) untilShutdown(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.draining, func() { cancel(ErrShutdown) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// dispatch finds the route. Whatever no route takes is the UI's, except under /api/.
func (a *API) dispatch(w http.ResponseWriter, r *http.Request) {
	found, pattern := a.mux.Handler(r)
	switch {
	case pattern != "":
		a.mux.ServeHTTP(w, r)
	case underAPI(r.URL.Path):
		a.unmatched(w, r, found)
	default:
		a.serveUI(w, r)
	}
}
