package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/link"
)

// health answers the probes: alive, and ready once the server has taken the agent. It tells ids only.
type health struct {
	now   func() time.Time
	begun time.Time

	mu  sync.Mutex
	doc probe
}

type probe struct {
	Registered bool     `json:"registered"`
	Agent      string   `json:"agent,omitempty"`
	Account    string   `json:"account,omitempty"`
	Uptime     int64    `json:"uptime_seconds"`
	Current    *working `json:"current"`
	Last       *worked  `json:"last"`
}

type working struct {
	Task    string    `json:"task"`
	Attempt string    `json:"attempt"`
	Kind    string    `json:"kind"`
	Stage   string    `json:"stage"`
	Started time.Time `json:"started_at"`
}

type worked struct {
	working
	Outcome string           `json:"outcome"`
	Stages  []link.StageTime `json:"stages"`
}

func newHealth(now func() time.Time) *health { return &health{now: now, begun: now()} }

func (h *health) change(f func(*probe)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.doc)
}

func (h *health) registered(yes bool, r api.Registered) {
	h.change(func(p *probe) {
		p.Registered = yes
		if yes {
			p.Agent, p.Account = r.Agent, r.Account
		}
	})
}

func (h *health) begin(w api.Work) {
	h.change(func(p *probe) {
		p.Current = &working{Task: w.Task, Attempt: w.Attempt, Kind: w.Kind, Stage: link.StagePrepare, Started: h.now().UTC()}
	})
}

func (h *health) stage(stage string) {
	h.change(func(p *probe) {
		if p.Current != nil {
			c := *p.Current
			c.Stage = stage
			p.Current = &c
		}
	})
}

func (h *health) ended(r link.Result) {
	h.change(func(p *probe) {
		if p.Current != nil {
			p.Last, p.Current = &worked{*p.Current, r.Outcome, r.Stages}, nil
		}
	})
}

// serve answers on addr until stop; nowhere where addr is empty.
func (h *health) serve(addr string, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, config.Invalid("HOLDFAST_HEALTH_ADDR: nothing can listen on %s (%v).", addr, err).
			WithHint("Choose another address, or off.")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { h.answer(w, false) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { h.answer(w, true) })
	s := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the probes are not served any more", "error", err)
		}
	}()
	log.Info("serving probes", "addr", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			_ = s.Close()
		}
	}, nil
}

func (h *health) answer(w http.ResponseWriter, ready bool) {
	h.mu.Lock()
	doc := h.doc
	h.mu.Unlock()
	doc.Uptime = int64(h.now().Sub(h.begun).Seconds())
	body, err := json.Marshal(doc)
	if err != nil {
		http.Error(w, fmt.Sprintf("%v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if ready && !doc.Registered {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n'))
}
