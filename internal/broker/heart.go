package broker

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/link"
)

// kickEvery is how soon after a heartbeat a change of stage is worth another one.
const kickEvery = time.Second

// askAnswered is how long the answer to a heartbeat that is asked for is waited for.
const askAnswered = 100 * time.Second

// heart beats for one attempt, from its acceptance until its report is stored.
type heart struct {
	platform *platform.Client
	task     string
	attempt  string
	every    time.Duration
	log      *slog.Logger

	mu       sync.Mutex
	stage    string
	progress string
	draining bool
	ordered  string // the first order that was not to continue

	kick   chan struct{}
	orders chan string // a link.Reason, once
}

func newHeart(p *platform.Client, w api.Work, policy api.AgentPolicy, log *slog.Logger) *heart {
	every := time.Duration(policy.HeartbeatSeconds) * time.Second
	if every <= 0 {
		every = 10 * time.Second
	}
	return &heart{
		platform: p, task: w.Task, attempt: w.Attempt, every: every, log: log, stage: link.StagePrepare,
		kick: make(chan struct{}, 1), orders: make(chan string, 1),
	}
}

// at says where the attempt is. A new stage is told soon.
func (h *heart) at(stage, progress string) {
	h.mu.Lock()
	changed := stage != h.stage
	h.stage, h.progress = stage, progress
	h.mu.Unlock()
	if changed {
		h.hurry()
	}
}

func (h *heart) drain() {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.hurry()
}

func (h *heart) hurry() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

func (h *heart) now() api.Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 200 // characters, of the contract
	progress := h.progress
	if r := []rune(progress); len(r) > most {
		progress = string(r[:most])
	}
	return api.Heartbeat{Attempt: h.attempt, Stage: h.stage, Progress: progress, Draining: h.draining}
}

// run beats until ctx is done.
func (h *heart) run(ctx context.Context) {
	tick := time.NewTimer(h.every)
	defer tick.Stop()
	last := time.Now()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.kick:
			if wait := kickEvery - time.Since(last); wait > 0 {
				tick.Reset(wait)
				continue
			}
		}
		last = time.Now()
		err := h.beat(ctx)
		next := h.every
		if err != nil && ctx.Err() == nil {
			if !failing {
				h.log.Warn("a heartbeat was not answered; trying on", "error", err)
			}
			next = min(next, 2*time.Second)
		}
		failing = err != nil
		tick.Reset(next)
	}
}

// beat sends one heartbeat and takes the order that answers it.
func (h *heart) beat(ctx context.Context) error {
	in := h.now()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := h.platform.Heartbeat(ctx, h.task, in)
	switch {
	case platform.Refused(err):
		h.order(link.ReasonRevoked)
	case platform.Status(err) == http.StatusConflict, platform.Status(err) == http.StatusNotFound, platform.Status(err) == http.StatusGone:
		h.order(link.ReasonSuperseded) // the attempt is over for the server
	case err != nil:
		return err
	case answer.Order == "cancel":
		h.order(link.ReasonAsked)
	case answer.Order == "superseded":
		h.order(link.ReasonSuperseded)
	}
	return nil
}

func (h *heart) order(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ordered == "" {
		h.ordered = reason
		h.orders <- reason
	}
}

// ask wants one answered heartbeat, and reports whether it said to go on.
func (h *heart) ask(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askAnswered)
	defer cancel()
	if err := h.platform.Until(ctx, "ask whether to apply", h.beat); err != nil {
		h.log.Error("the server did not say whether to apply", "error", err)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ordered == "" && !h.draining
}
