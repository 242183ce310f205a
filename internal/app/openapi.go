package app

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/httpapi"
)

// OpenAPI is the description of the HTTP contract as JSON and as YAML, without a server.
func OpenAPI() (asJSON, asYAML []byte, err error) {
	settings, _, err := config.LoadServer(nil) // routes are bounded by the engine's limits
	if err != nil {
		return nil, nil, err
	}
	return httpapi.New(httpapi.Config{
		Engine: engine.New(engine.Config{Limits: limits(settings)}), Log: slog.New(slog.DiscardHandler), Now: time.Now, BaseURL: &url.URL{Scheme: "http", Host: "127.0.0.1"},
		Metrics: prometheus.NewRegistry(),
	}).OpenAPI()
}
