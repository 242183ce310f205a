package engine

import (
	"context"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
)

// Times of the protocol.
const (
	MaxClaimWait  = 30 * time.Second // a claim is held open at most this long
	offerLifetime = 10 * time.Second // an offer that is not accepted goes back
	seenInterval  = 15 * time.Second // how exactly an agent's last sign of life is kept
	giveBackWait  = 5 * time.Second
)

// Claim is what an agent asks with.
type Claim struct {
	Draining bool          // it takes nothing more
	Wait     time.Duration // at most MaxClaimWait
}

// Offer is an attempt that is the agent's once it accepts it.
type Offer struct {
	Task, Attempt string
}

// Claim offers the agent the account's oldest ready task, waiting for one as long as it was asked to. ok is false
// where there was none in time, or ctx ended. Forbidden (account_disabled) and UpgradeRequired do not last: the agent
// is to keep asking.
func (e *Engine) Claim(ctx context.Context, actor access.Actor, in Claim) (offer Offer, ok bool, err error) {
	if err := actor.Allow(access.AgentWork); err != nil {
		return offer, false, err
	}
	// Subscribed first, so that no task is missed between the first look and the wait.
	signals, stop := e.store.Subscribe(tasksTopic(actor.Account))
	defer stop()
	if err := e.admitClaim(ctx, actor, in.Draining); err != nil || in.Draining {
		return offer, false, unlessGone(ctx, err)
	}
	wait, cancel := context.WithTimeout(ctx, min(in.Wait, MaxClaimWait))
	defer cancel()
	for {
		offer, ok, err = e.tryClaim(ctx, actor)
		if ok && ctx.Err() != nil {
			// Nobody is there any more to hear of it.
			back, done := context.WithTimeout(context.WithoutCancel(ctx), giveBackWait)
			defer done()
			return Offer{}, false, e.returnOffer(back, offer.Attempt, "the agent went away while it was offered")
		}
		if ok || err != nil {
			return offer, ok, unlessGone(ctx, err)
		}
		select {
		case <-signals:
		case <-wait.Done():
			return Offer{}, false, nil
		}
	}
}

// unlessGone is err, or nil where it may only say that the agent has gone away. If it was offered something in that
// moment, the offer goes back by itself.
func unlessGone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// admitClaim refuses an agent that may not work now, and notes that it was seen.
func (e *Engine) admitClaim(ctx context.Context, actor access.Actor, draining bool) error {
	var agent access.AgentRecord
	err := e.store.View(ctx, func(tx Tx) (err error) {
		if agent, err = tx.Agent(ctx, actor.Org, actor.ID); err != nil {
			return err
		}
		account, err := tx.AccountByID(ctx, actor.Account)
		if err != nil {
			return err
		}
		if !account.Enabled {
			return accountDisabled(account.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if agent.RegisteredAt.IsZero() {
		return fault.New(fault.Conflict, "not_registered", "The agent has not registered.").WithHint("Register first.")
	}
	if VersionStatus(agent.Version) == VersionUnsupported {
		return fault.New(fault.UpgradeRequired, "upgrade_required", "This server needs agents of version %s or later; this one is %s.", MinAgentVersion, agent.Version).
			WithHint("Upgrade the agent. What waits is kept until then.")
	}
	if agent.Draining == draining && e.now().Sub(agent.LastSeenAt) < seenInterval {
		return nil
	}
	return e.store.Update(ctx, func(tx Tx) error { return e.seen(ctx, tx, actor, draining) })
}

func accountDisabled(name string) error {
	return fault.New(fault.Forbidden, "account_disabled", "The account %s is disabled.", name).
		WithHint("An administrator enables it with `holdfast account enable %s`. The agent goes on by itself then.", name)
}

// seen notes that the agent lives.
func (e *Engine) seen(ctx context.Context, tx Tx, actor access.Actor, draining bool) error {
	agent, err := tx.Agent(ctx, actor.Org, actor.ID)
	if err != nil {
		return err
	}
	agent.LastSeenAt, agent.Draining = e.now(), draining
	return tx.UpdateAgent(ctx, agent)
}

// tryClaim looks for a task once. Of many agents that are woken by one task only as many go to the database as find
// something, and one more: who was woken before somebody looked in vain need not look again.
func (e *Engine) tryClaim(ctx context.Context, actor access.Actor) (offer Offer, ok bool, err error) {
	if !e.sealed() {
		return offer, false, nil // what waits from before the key was taken away goes on waiting
	}
	gate := e.claims.of(actor.Account)
	woken := gate.now()
	if err := gate.enter(ctx); err != nil {
		return offer, false, nil //nolint:nilerr // the wait is over
	}
	defer gate.leave()
	if gate.emptySince(woken) {
		return offer, false, nil
	}
	started := gate.next()
	for {
		var stale string
		err = e.store.Update(ctx, func(tx Tx) error {
			offer, stale, err = e.offer(ctx, tx, actor)
			return err
		})
		switch {
		case err != nil:
			return Offer{}, false, err
		case stale != "":
			// Its plan does not fit any more. That is said with the locks in the usual order, in a transaction of its own.
			if err := e.discardStale(ctx, stale); err != nil {
				return Offer{}, false, err
			}
		case offer.Task == "":
			gate.wasEmpty(started)
			return offer, false, nil
		default:
			return offer, true, nil
		}
	}
}

// offer makes an attempt of the oldest ready task; a zero Offer where there is none. stale is a run whose apply must
// not be offered.
func (e *Engine) offer(ctx context.Context, tx Tx, actor access.Actor) (o Offer, stale string, err error) {
	t, err := tx.NextTask(ctx, actor.Account)
	if fault.Is(err, fault.NotFound) {
		return o, "", nil
	}
	if err != nil {
		return o, "", err
	}
	if t.Kind == run.TaskApply {
		r, err := tx.Run(ctx, t.Org, t.Run)
		if err != nil {
			return o, "", err
		}
		if why, err := e.moved(ctx, tx, &r); err != nil || why != "" {
			return o, r.ID, err
		}
	}
	t.Attempts++
	if err := e.moveTask(ctx, tx, &t, run.TaskOffer); err != nil {
		return o, "", err
	}
	now := e.now()
	a := run.Attempt{
		ID: id.New(id.Attempt, now), Org: t.Org, Task: t.ID, Run: t.Run, Component: t.Component, TaskKind: t.Kind,
		Number: t.Attempts, Agent: actor.ID, AgentName: actor.Name, Status: run.AttemptOffered, OfferedAt: now,
	}
	if err := tx.CreateAttempt(ctx, a); err != nil {
		return o, "", err
	}
	return Offer{Task: t.ID, Attempt: a.ID}, "", nil
}

// discardStale ends a run whose apply waits for an agent and must not happen any more.
func (e *Engine) discardStale(ctx context.Context, runID string) error {
	_, err := e.change(ctx, "", runID, func(ctx context.Context, tx Tx, r *run.Run) error {
		if r.Status != run.Applying {
			return nil
		}
		tasks, err := tx.Tasks(ctx, r.ID)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if t.Kind == run.TaskApply && t.Status != run.TaskReady {
				return nil // somebody took it meanwhile; the accept looks again
			}
		}
		why, err := e.moved(ctx, tx, r)
		if err != nil || why == "" {
			return err
		}
		return e.discard(ctx, tx, r, why)
	})
	return err
}

// claimGates let the agents of an account look for tasks one after the other, on this server. They are an economy:
// the store alone decides who gets a task.
type claimGates struct {
	mu       sync.Mutex
	accounts map[string]*claimGate
}

func (g *claimGates) of(account string) *claimGate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accounts == nil {
		g.accounts = map[string]*claimGate{}
	}
	if g.accounts[account] == nil {
		g.accounts[account] = &claimGate{turn: make(chan struct{}, 1)}
	}
	return g.accounts[account]
}

type claimGate struct {
	turn chan struct{} // holds one value while somebody looks

	mu    sync.Mutex
	clock int64 // counts looks
	empty int64 // the last look that found nothing began at this count
}

func (g *claimGate) enter(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *claimGate) leave() { <-g.turn }

func (g *claimGate) now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock
}

func (g *claimGate) next() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock++
	return g.clock
}

func (g *claimGate) wasEmpty(started int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty = max(g.empty, started)
}

// emptySince reports whether a look that began after the count woken found nothing.
func (g *claimGate) emptySince(woken int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty > woken
}
