// Package broker is the half of an agent that has the token: it claims work, gives it to the worker, relays the
// attempt's state, and delivers log, plan and report until the server has them. It never parses or runs customer code.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/link"
)

// Bounds of an orderly stop, after the interrupt's grace. Source: reference/provisioning-agent.txt section 3.
const (
	reportWindow = 2 * time.Minute
	// workerSlack is how much longer than the grace the worker may take to say how an attempt ended.
	workerSlack = 30 * time.Second
)

// How long an agent that is refused for now waits before it asks again.
const (
	refusedLeast = time.Minute
	refusedMost  = 3 * time.Minute
)

// capabilityInline is told by an agent that runs sources which were packed by holdfast up.
const capabilityInline = "source:inline"

// CodeTokenRefused is the code of the error that ends a broker whose token is not accepted: only a new one helps.
const CodeTokenRefused = "agent_token_refused" //nolint:gosec // a code, no token

// Options are what a Broker is made of; all are required.
type Options struct {
	Settings config.Broker
	UID      int    // this process's
	Version  string // this program's
	Log      *slog.Logger
	Now      func() time.Time
}

// Broker is one agent's.
type Broker struct {
	config.Broker
	WorkerUID int
	version   string
	log       *slog.Logger
	now       func() time.Time
	platform  *platform.Client
	sealer    sealer
	private   string // directory
	health    *health
	policy    api.AgentPolicy
	caps      []string       // as registered; nil before
	removing  sync.WaitGroup // of the last attempt's directories, while the next one is claimed
	strays    bool           // there may be directories that only the worker can clear
}

// New makes a Broker. Nothing happens before Run.
func New(o Options) (*Broker, error) {
	b := &Broker{
		Broker: o.Settings, WorkerUID: int(o.Settings.WorkerUID), version: o.Version, log: o.Log, now: o.Now,
		platform: platform.New(o.Settings.PlatformURL, o.Settings.Token, o.Version, o.Log),
		health:   newHealth(o.Now),
		policy:   defaultPolicy(),
	}
	var err error
	if b.sealer, err = newSealer(o.Settings.Token); err != nil {
		return nil, err
	}
	switch {
	case b.Unisolated:
		b.WorkerUID = o.UID
	case b.WorkerUID == o.UID:
		return nil, config.Invalid("HOLDFAST_WORKER_UID: the broker itself runs as user %d; a template could then read the token.", o.UID).
			WithHint("Run broker and worker as a user each.")
	}
	return b, nil
}

// defaultPolicy holds until the server has said its own: for what an earlier life left.
func defaultPolicy() api.AgentPolicy {
	return api.AgentPolicy{
		ClaimWaitSeconds: 30, HeartbeatSeconds: 10, LogLineBytes: 64 << 10, LogTotalBytes: 64 << 20, LogChunkBytes: 256 << 10,
		StateMaxBytes: 128 << 20, SourceMaxBytes: 100 << 20, PlanMaxBytes: 256 << 20,
	}
}

// Run serves until ctx is done; then it drains: an offer that was not accepted is left, and an attempt that runs is
// interrupted, brought to its end and reported.
func (b *Broker) Run(ctx context.Context) error {
	if err := harden(); err != nil {
		return err
	}
	syscall.Umask(0o007)
	if err := b.openWorkDir(); err != nil {
		return err
	}
	stop, err := b.health.serve(b.HealthAddr, b.log)
	if err != nil {
		return err
	}
	defer stop()
	left, err := b.leftovers(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, a := range left {
			a.stop()
		}
	}()
	defer b.removing.Wait()
	b.strays = true
	var w *workerConn
	for {
		if w == nil {
			if w, err = b.meet(ctx); err != nil {
				return done(ctx, err)
			}
		}
		if len(left) > 0 {
			if err := b.finishLeftover(ctx, left[0], w); err != nil {
				return done(ctx, err)
			}
			left = left[1:]
			continue
		}
		if b.strays {
			b.strays = b.removeStrays(w)
		}
		offer, err := b.claim(ctx, w)
		if err != nil {
			w.close()
			return done(ctx, err)
		}
		if offer.Task == "" { // the worker went away
			w.close()
			w = nil
			continue
		}
		if w, err = b.attempt(ctx, w, offer); err != nil {
			return done(ctx, err)
		}
	}
}

// harden keeps what this process knows from what other processes of its user, or those it starts, can read: its memory
// and environment, and the descriptor that its token may have come by.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	return link.KeepDescriptors()
}

// done is nil where ctx being done is all that happened.
func done(ctx context.Context, err error) error {
	if ctx.Err() != nil && fault.Code(err) != CodeTokenRefused {
		return nil
	}
	return err
}

// refused makes the end of a broker of a 401.
func refused(err error) error {
	return fault.Wrap(err, fault.Unauthenticated, CodeTokenRefused, "The server does not accept the agent's token any more.").
		WithHint("Issue a new one, put it in HOLDFAST_AGENT_TOKEN, and start the agent again.")
}

// claim registers and asks for work until there is some. The zero Offer means that the worker is gone.
func (b *Broker) claim(ctx context.Context, w *workerConn) (api.Offer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := w.onGone(func() { cancel(errWorkerGone) })
	defer stop()
	offer, err := b.claimUntil(ctx, w)
	if errors.Is(context.Cause(ctx), errWorkerGone) {
		return api.Offer{}, nil // an offer that came meanwhile goes back by itself
	}
	return offer, err
}

func (b *Broker) claimUntil(ctx context.Context, w *workerConn) (offer api.Offer, err error) {
	caps := slices.Clone(w.hello.Capabilities)
	if b.AllowInline {
		caps = append(caps, capabilityInline)
	}
	var backoff platform.Backoff
	for {
		if !slices.Equal(caps, b.caps) {
			err = b.register(ctx, caps)
		} else {
			offer, err = b.platform.Claim(ctx, api.Claim{Capabilities: caps, WaitSeconds: b.policy.ClaimWaitSeconds})
		}
		switch {
		case ctx.Err() != nil:
			return api.Offer{}, context.Cause(ctx)
		case err == nil && offer.Attempt != "" && id.Valid(id.Attempt, offer.Attempt):
			return offer, nil
		case err == nil:
			backoff.Reset()
			continue
		case platform.Refused(err):
			return api.Offer{}, refused(err)
		}
		if err := b.pause(ctx, &backoff, err); err != nil {
			return api.Offer{}, err
		}
	}
}

// pause waits as long as a failed request asks for.
func (b *Broker) pause(ctx context.Context, backoff *platform.Backoff, err error) error {
	var least time.Duration
	if e, ok := errors.AsType[*platform.Error](err); ok {
		least = e.RetryAfter
	}
	if platform.NotNow(err) || platform.Final(err) {
		b.health.registered(false, api.Registered{})
		b.caps = nil
		least = refusedLeast + rand.N(refusedMost-refusedLeast) //nolint:gosec // so that agents do not come in step
		b.log.Error("the server refuses this agent for now", "error", err, "again_in", least.Round(time.Second))
	} else {
		b.log.Warn("the server does not answer; trying on", "error", err)
	}
	if !backoff.Wait(ctx, least) {
		return context.Cause(ctx)
	}
	return nil
}

func (b *Broker) register(ctx context.Context, caps []string) error {
	r, err := b.platform.Register(ctx, api.Register{Version: b.version, Capabilities: caps})
	if err != nil {
		return err
	}
	b.caps, b.policy = caps, bounded(r.Policy)
	b.health.registered(true, r)
	b.log.Info("registered", "agent", r.Agent, "name", r.Name, "account", r.Account, "version_status", r.VersionStatus, "capabilities", caps)
	return nil
}

// bounded takes the server's policy where it is sensible, and our own limits elsewhere: a server that was broken into
// must not fill this machine.
func bounded(p api.AgentPolicy) api.AgentPolicy {
	d := defaultPolicy()
	within := func(v, def, least, most int64) int64 {
		if v <= 0 {
			return def
		}
		return min(max(v, least), most)
	}
	return api.AgentPolicy{
		ClaimWaitSeconds: int(within(int64(p.ClaimWaitSeconds), int64(d.ClaimWaitSeconds), 1, 30)),
		HeartbeatSeconds: int(within(int64(p.HeartbeatSeconds), int64(d.HeartbeatSeconds), 1, 60)),
		LogLineBytes:     int(within(int64(p.LogLineBytes), int64(d.LogLineBytes), 256, 1<<20)),
		LogTotalBytes:    within(p.LogTotalBytes, d.LogTotalBytes, 4096, 1<<30),
		LogChunkBytes:    int(within(int64(p.LogChunkBytes), int64(d.LogChunkBytes), 1024, 1<<20)),
		StateMaxBytes:    within(p.StateMaxBytes, d.StateMaxBytes, 1024, 128<<20),
		SourceMaxBytes:   within(p.SourceMaxBytes, d.SourceMaxBytes, 1024, 100<<20),
		PlanMaxBytes:     within(p.PlanMaxBytes, d.PlanMaxBytes, 1024, 256<<20),
	}
}
