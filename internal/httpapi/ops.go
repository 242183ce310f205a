package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
)

// typeFor is the type T, for schemas.
func typeFor[T any]() reflect.Type { return reflect.TypeFor[T]() }

func (a *API) mountOps() {
	alive := huma.Operation{OperationID: "healthz", Summary: "Whether the process is alive", Tags: []string{"ops"}, Responses: plainText("Alive")}
	a.handle(http.MethodGet, "/healthz", access.Public, alive, func(w http.ResponseWriter, _ *http.Request, _ access.Actor) error {
		return writeText(w, "ok\n")
	})
	ready := huma.Operation{OperationID: "readyz", Summary: "Whether database and keys can be used", Tags: []string{"ops"}, Responses: plainText("Ready")}
	a.handle(http.MethodGet, "/readyz", access.Public, ready, a.ready)
	numbers := huma.Operation{OperationID: "metrics", Summary: "Metrics in the text format of Prometheus", Tags: []string{"ops"}, Responses: plainText("Metrics")}
	a.handle(http.MethodGet, "/metrics", access.Public, numbers, func(w http.ResponseWriter, r *http.Request, _ access.Actor) error {
		a.metrics.handler.ServeHTTP(w, r)
		return nil
	})
}

func (a *API) ready(w http.ResponseWriter, r *http.Request, _ access.Actor) error {
	if a.draining.Err() != nil {
		return fault.New(fault.Unavailable, "shutting_down", "This server is shutting down.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if err := a.engine.Ready(ctx); err != nil {
		return err
	}
	return writeText(w, "ready\n")
}

func writeText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(text))
	return err
}

func plainText(what string) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}}}
}

// metrics counts requests by route pattern and class of status, so the number of series is that of the routes.
type metrics struct {
	took    *prometheus.HistogramVec
	open    prometheus.Gauge
	handler http.Handler
}

func newMetrics(r *prometheus.Registry, version string) *metrics {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m := &metrics{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_http_request_seconds", Help: "Duration of HTTP requests by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "status"}),
		open:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_http_requests_open", Help: "HTTP requests that have begun and not ended."}),
		handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true}),
	}
	r.MustRegister(m.took, m.open, build)
	return m
}

func (m *metrics) observe(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "none"
	}
	m.took.WithLabelValues(pattern, strconv.Itoa(status/100)+"xx").Observe(took.Seconds())
}
