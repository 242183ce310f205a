// Package app puts the server together: store, keys, engine, HTTP, and the loops beside it.
package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/httpapi"
	"holdfast.dev/holdfast/internal/jobs"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/store"
	"holdfast.dev/holdfast/internal/transit"
)

// Bounds that are no settings.
const (
	sourceMaxBytes = 100 << 20
	planMaxBytes   = 256 << 20
	sweepEvery     = 5 * time.Second
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	drainTimeout   = 20 * time.Second
)

// Config is what an App is made of. All fields are required.
type Config struct {
	Settings config.Server
	Version  string
	UI       fs.FS
	Log      *slog.Logger
	Now      func() time.Time
}

// App is a server that listens and does not serve yet.
type App struct {
	store    *store.Store
	engine   *engine.Engine
	api      *httpapi.API
	jobs     *jobs.Jobs
	services []*transit.Client
	listener net.Listener
	http     *http.Server
	log      *slog.Logger
	base     *url.URL
	code     redact.Secret
}

// New opens the store, takes the keys, listens, and sets the installation up if this is its first start. What the
// settings got wrong comes back as config.CodeInvalid. Run or Close has to follow.
func New(ctx context.Context, c Config) (_ *App, err error) {
	s := c.Settings
	k, err := openKeys(s, c.Log, c.Now)
	if err != nil {
		return nil, err
	}
	blobs, err := openBlobs(s.Blob)
	if err != nil {
		return nil, err
	}
	a := &App{log: c.Log, services: k.services}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.store, err = openStore(ctx, s, c.Log); err != nil {
		return nil, err
	}
	a.engine = engine.New(engine.Config{
		Store: a.store, Blobs: blobs, BlobsReadOnly: s.Blob.ReadOnly, Keys: k.seals(), AuditKeys: k.auditKeys(), Limits: limits(s), Now: c.Now, Log: c.Log,
	})
	if a.jobs, err = jobs.New(ctx, jobs.Options{Database: a.store, Housekeeper: a.engine, Logger: c.Log}); err != nil {
		return nil, err
	}
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.ListenAddr); err != nil {
		return nil, config.Invalid("HOLDFAST_LISTEN_ADDR: cannot listen on %s: %v.", s.ListenAddr, err)
	}
	a.base = baseURL(s.BaseURL, a.listener.Addr())
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.api = httpapi.New(httpapi.Config{
		Engine: a.engine, Log: c.Log, Now: c.Now, Version: c.Version, BaseURL: a.base, UI: c.UI,
		TrustedProxies: s.TrustedProxies, Metrics: registry,
	})
	a.http = &http.Server{
		Handler: a.api, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}
	switch err := a.engine.OpenAuditKey(ctx); {
	case fault.Is(err, fault.Unavailable):
		c.Log.WarnContext(ctx, "the key service is away; what needs it is refused until it is back", "error", err.Error())
	case err != nil:
		return nil, err
	}
	if blobs != nil {
		if err := blobs.Ready(ctx); err != nil { // the same: small states can be read and written without it
			c.Log.WarnContext(ctx, "the object store cannot be used; what needs it is refused until it can", "error", err.Error())
		}
	}
	if a.code, err = a.engine.Bootstrap(ctx, s.BootstrapToken); err != nil {
		return nil, fmt.Errorf("set the installation up: %w", err)
	}
	return a, nil
}

func limits(s config.Server) engine.Limits {
	return engine.Limits{
		StateMaxBytes: s.StateMaxBytes, KeepVersions: int(s.KeepVersions), DeletedKeep: s.DeletedKeep, RunEndGrace: s.RunEndGrace,
		HeartbeatTimeout: s.HeartbeatTimeout, StepTimeout: s.StepTimeout, PlanMaxAge: s.PlanMaxAge,
		SourceMaxBytes: sourceMaxBytes, PlanMaxBytes: planMaxBytes,
	}
}

// baseURL is where browsers reach the server, from the setting or from where it listens. An address that means all
// of them is reached by this machine's own.
func baseURL(set *url.URL, addr net.Addr) *url.URL {
	if set != nil {
		return set
	}
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}
	}
	return &url.URL{Scheme: "http", Host: addr.String()}
}

// Addr is where the server listens.
func (a *App) Addr() string { return a.listener.Addr().String() }

// BaseURL is where browsers and agents reach the server.
func (a *App) BaseURL() string { return a.base.String() }

// SignInLink is a link that signs the first administrator in, once; "" once somebody has signed in.
func (a *App) SignInLink() string {
	if a.code.IsZero() {
		return ""
	}
	return httpapi.SignInLink(a.base.String(), a.code)
}

// Run serves until ctx ends, then lets requests that have begun come to their end for up to 20 seconds, and closes
// the store.
func (a *App) Run(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := a.http.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	g.Go(func() error { return a.api.Run(running) })
	g.Go(func() error { return a.sweep(running) })
	g.Go(func() error { return a.jobs.Run(running) })
	for _, service := range a.services {
		g.Go(func() error { return service.Run(running) })
	}
	g.Go(func() error {
		<-running.Done()
		return a.drain(context.WithoutCancel(ctx))
	})
	return errors.Join(g.Wait(), a.Close())
}

// drain ends long polls, stops listening and waits for the requests.
func (a *App) drain(ctx context.Context) error {
	a.log.InfoContext(ctx, "shutting down")
	a.api.Drain()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := a.http.Shutdown(ctx); err != nil {
		a.log.WarnContext(ctx, "requests were cut after the time to finish them", "error", err.Error())
		return a.http.Close()
	}
	return nil
}

// sweep is the engine's clock. Every server has its own: it tells the engine since when this one has been listening.
func (a *App) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := a.engine.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "sweep failed; the next one tries again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Close gives back what New took. Run does it by itself.
func (a *App) Close() error {
	var errs []error
	if a.listener != nil {
		if err := a.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}
