package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// Life is whether a lock's holder still lives.
type Life struct {
	Alive    string // yes, no or unknown
	Evidence string // what that is concluded from
	LastSeen time.Time
	Dead     bool // it can do nothing any more: its lock may be taken over
}

// LockState takes the state's lock, and in the same transaction the hold for a run that asks for one. A repeat by the
// holder with the same id changes nothing. Locked with the holder's lock document as Detail where somebody else has
// it.
func (e *Engine) LockState(ctx context.Context, a access.Actor, name string, info state.LockInfo) (err error) {
	defer func() {
		if fault.Is(err, fault.Locked) {
			e.refused.note(e.now())
		}
		e.logRefusal(ctx, a, "lock", name, info.ID, err)
	}()
	if err := stateAccess(a, access.StateWrite, name); err != nil {
		return err
	}
	if err := e.needKey(); err != nil {
		return err
	}
	if err := e.mayLock(ctx, a, name, info.ID); err != nil {
		return err
	}
	var took *state.Lock // whose lock was taken over
	err = e.changeState(ctx, a, name, true, func(tx Tx, s state.State, by sender) error {
		took = nil
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		step, err := state.MayLock(s, by.Sender, info.ID, life.Dead)
		if err != nil || step == state.LockHave {
			return err
		}
		now := e.now()
		took = s.Lock
		s.Lock = &state.Lock{Key: id.New(id.Lock, now), Info: info, Holder: by.Holder, TakenAt: now}
		if err := attemptLocks(ctx, tx, &s, by, now); err != nil {
			return err
		}
		return tx.UpdateState(ctx, s)
	})
	if err != nil {
		return err
	}
	e.log.InfoContext(ctx, "state locked", "state", name, "org", a.Org, "lock", info.ID, "operation", info.Operation, "who", string(a.Kind)+" "+a.ID,
		"name", a.Name, "run", a.Run, "request_id", a.RequestID)
	if took != nil {
		e.log.InfoContext(ctx, "state lock taken over from an ended holder", "state", name, "org", a.Org, "lock", took.Info.ID, "holder", took.Holder.ID, "run", took.Holder.Run)
	}
	return nil
}

// refusals knows whether locks are contended on this server. It decides how something is found out, never what.
type refusals struct{ last atomic.Int64 }

// contentionWindow is for how long after a refused lock others are looked at by a reader first.
const contentionWindow = 2 * time.Second

func (r *refusals) note(now time.Time) { r.last.Store(now.UnixMilli()) }
func (r *refusals) recent(now time.Time) bool {
	return now.UnixMilli()-r.last.Load() <= contentionWindow.Milliseconds()
}

// mayLock refuses without a writer where locks are contended: clients that wait for a lock ask again and again, and
// would stand before its holder in the writers' queue. Nil decides nothing.
func (e *Engine) mayLock(ctx context.Context, a access.Actor, name, lockID string) error {
	if !e.refused.recent(e.now()) {
		return nil
	}
	return e.store.View(ctx, func(tx Tx) error {
		s, err := tx.State(ctx, a.Org, name)
		if err != nil || s.Lock == nil {
			return nil //nolint:nilerr // the transaction that follows finds out
		}
		by, err := e.sender(ctx, tx, a)
		if err != nil {
			return err
		}
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		if err := ownState(a, s, name, nil); err != nil {
			return err
		}
		_, err = state.MayLock(s, by.Sender, lockID, life.Dead)
		return err
	})
}

// attemptLocks is what the lock of an attempt means for its run: a plan's takes the hold, and an apply's is refused
// unless the state is, byte for byte, what was approved. Both in the lock's own transaction, so nothing comes between.
func attemptLocks(ctx context.Context, tx Tx, s *state.State, by sender, now time.Time) error {
	if !by.Plan && !by.Apply {
		return nil
	}
	r, err := tx.Run(ctx, "", by.Run)
	if err != nil {
		return fmt.Errorf("read the run %s of the attempt: %w", by.Run, err)
	}
	if by.Apply {
		return asApproved(*s, r, by.attempt.Component)
	}
	if r.Hold && s.Hold == nil {
		s.Hold = &state.Hold{Run: r.ID, Since: now}
	}
	return nil
}

func asApproved(s state.State, r run.Run, component string) error {
	for _, c := range r.Components {
		if c.Name != component || c.Plan == nil {
			continue
		}
		now := ""
		if s.Head != nil {
			now = s.Head.SHA256
		}
		if now == c.Plan.BaseSHA256 {
			return nil
		}
		return fault.New(fault.Unprocessable, "state_moved", "%s has changed since the plan of %s in run %s was made; that plan is out of date and is not applied.", s.Name, component, r.ID).
			WithHint("Start a new run, which plans on the state as it is now.")
	}
	return fault.New(fault.Forbidden, "no_plan", "Run %s has no plan of %s to apply.", r.ID, component)
}

// UnlockRequest is a request to release a lock.
type UnlockRequest struct {
	ID      string // "": whatever is held, and a hold
	Force   bool   // asked for as a force unlock
	Unsaved bool   // the relay could not deliver a save: the run's hold stays until the state is recovered
	Reason  string // of a person who forces; for the audit log
}

// UnlockState releases a lock, or ends a hold. Releasing somebody else's is a force unlock, which needs StateManage. A
// forced release, also of one's own lock, is audited, and what its holder saves later is kept aside. Releasing what is
// released already is no error.
func (e *Engine) UnlockState(ctx context.Context, a access.Actor, name string, u UnlockRequest) (err error) {
	defer func() { e.logRefusal(ctx, a, "unlock", name, u.ID, err) }()
	need := access.StateWrite
	if a.Allow(access.StateManage) == nil {
		need = access.StateManage // who may release every lock need not be allowed to take one
	}
	if err := stateAccess(a, need, name); err != nil {
		return err
	}
	var step state.UnlockStep
	err = e.changeState(ctx, a, name, false, func(tx Tx, s state.State, by sender) error {
		step = state.UnlockStep{}
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		unsaved, err := e.unsaved(ctx, tx, s, by, u.Unsaved)
		if err != nil {
			return err
		}
		step, err = state.MayUnlock(s, by.Sender, state.Unlock{ID: u.ID, Force: u.Force, Dead: life.Dead, Unsaved: unsaved})
		if err != nil || step == (state.UnlockStep{}) {
			return err
		}
		return e.release(ctx, tx, a, s, step, u.Reason)
	})
	if err != nil {
		return err
	}
	e.log.InfoContext(ctx, "state unlocked", "state", name, "org", a.Org, "lock", u.ID, "forced", step.Forced, "hold_ended", step.EndHold,
		"who", string(a.Kind)+" "+a.ID, "name", a.Name, "run", a.Run, "request_id", a.RequestID)
	return nil
}

// release does what step says.
func (e *Engine) release(ctx context.Context, tx Tx, a access.Actor, s state.State, step state.UnlockStep, reason string) error {
	was := forcedRecord{Reason: reason}
	if step.Release && s.Lock != nil {
		was.LockID, was.LockKey, was.Holder = s.Lock.Info.ID, s.Lock.Key, s.Lock.Holder
		s.Lock = nil
	}
	if step.EndHold && s.Hold != nil {
		was.Hold = s.Hold.ID()
		s.Hold = nil
	}
	if err := tx.UpdateState(ctx, s); err != nil {
		return err
	}
	if !step.Forced {
		return nil
	}
	return e.record(ctx, tx, a, forceAction, s.Name, was)
}

const forceAction = "state.force_unlock"

// forcedRecord is what the audit log says of a forced release. A late save of the holder is recognised by it.
type forcedRecord struct {
	LockID  string       `json:"lock_id,omitempty"`
	LockKey string       `json:"lock_key,omitempty"`
	Holder  state.Holder `json:"holder,omitzero"`
	Hold    string       `json:"hold,omitempty"`
	Reason  string       `json:"reason,omitempty"`
}

// ForceUnlock releases the lock with the request's id or ends the hold with it; without an id, whatever lock is held,
// and a hold.
func (e *Engine) ForceUnlock(ctx context.Context, a access.Actor, name string, u UnlockRequest) (StateView, error) {
	if err := a.Allow(access.StateManage); err != nil {
		return StateView{}, err
	}
	u.Force = true
	if err := e.UnlockState(ctx, a, name, u); err != nil {
		return StateView{}, err
	}
	return e.State(ctx, a, name)
}

// endHold ends the hold that a run has on a state, if it has.
func (e *Engine) endHold(ctx context.Context, tx Tx, stateID, runID string) error {
	s, err := lockedByID(ctx, tx, stateID)
	if err != nil || s.Hold == nil || s.Hold.Run != runID {
		return err
	}
	s.Hold = nil
	return tx.UpdateState(ctx, s)
}

// releaseAttemptLock releases the lock that an ended attempt has on its component's state, if it has. It is no force:
// the caller knows that the attempt can do nothing any more.
func (e *Engine) releaseAttemptLock(ctx context.Context, tx Tx, a run.Attempt) error {
	r, err := tx.Run(ctx, "", a.Run)
	if err != nil {
		return fmt.Errorf("read the run %s of the attempt: %w", a.Run, err)
	}
	for _, c := range r.Components {
		if c.Name != a.Component || c.StateID == "" {
			continue
		}
		s, err := lockedByID(ctx, tx, c.StateID)
		if err != nil || s.Lock == nil || s.Lock.Holder.Kind != state.HolderAttempt || s.Lock.Holder.ID != a.ID {
			return err
		}
		s.Lock = nil
		return tx.UpdateState(ctx, s)
	}
	return nil
}

// lockedByID reads a state and keeps other transactions from it.
func lockedByID(ctx context.Context, tx Tx, stateID string) (state.State, error) {
	s, err := tx.StateByID(ctx, stateID)
	if err != nil {
		return s, fmt.Errorf("read the state %s: %w", stateID, err)
	}
	return tx.StateForUpdate(ctx, s.Org, s.Name)
}

// lockLife is the life of the lock's holder; zero without a lock.
func (e *Engine) lockLife(ctx context.Context, tx Tx, s state.State) (Life, error) {
	if s.Lock == nil {
		return Life{}, nil
	}
	h := s.Lock.Holder
	if h.Kind != state.HolderAttempt {
		return Life{Alive: "unknown", Evidence: "A tool on a person's machine says nothing between lock and unlock."}, nil
	}
	a, err := tx.Attempt(ctx, h.ID)
	if fault.Is(err, fault.NotFound) {
		return Life{Alive: "no", Evidence: "The attempt is not known any more.", Dead: true}, nil
	}
	if err != nil {
		return Life{}, fmt.Errorf("read the attempt %s that holds the lock: %w", h.ID, err)
	}
	if a.Status == run.AttemptLost {
		return e.lostLife(ctx, tx, a)
	}
	return e.attemptLife(a), nil
}

func (e *Engine) attemptLife(a run.Attempt) Life {
	seen := a.HeartbeatAt
	if seen.IsZero() {
		seen = a.AcceptedAt
	}
	l := Life{LastSeen: seen}
	silent := e.now().Sub(seen)
	switch {
	case a.Status.Final():
		l.Alive, l.Dead, l.Evidence = "no", true, "The attempt has ended: "+string(a.Status)+"."
	case silent <= e.limits.HeartbeatTimeout:
		l.Alive, l.Evidence = "yes", "Its agent sent a heartbeat "+silent.Truncate(time.Second).String()+" ago."
	default:
		l.Alive, l.Evidence = "unknown", "Its agent has sent no heartbeat for "+silent.Truncate(time.Second).String()+"."
	}
	return l
}

// lostLife is the life of an attempt whose agent is not heard of any more: it may still work, and save, until the
// grace is over or another attempt of its task is at work.
func (e *Engine) lostLife(ctx context.Context, tx Tx, a run.Attempt) (Life, error) {
	l := Life{Alive: "unknown", LastSeen: a.HeartbeatAt}
	until := a.EndedAt.Add(e.limits.RunEndGrace)
	if !e.now().Before(until) {
		l.Alive, l.Dead, l.Evidence = "no", true, "Its agent was lost, and the time for a last save is over."
		return l, nil
	}
	attempts, err := tx.Attempts(ctx, a.Run, a.Task)
	if err != nil {
		return l, fmt.Errorf("read the attempts of task %s: %w", a.Task, err)
	}
	for _, later := range attempts {
		if later.Number > a.Number && !later.AcceptedAt.IsZero() {
			l.Alive, l.Dead, l.Evidence = "no", true, "Its agent was lost, and another attempt has taken its place."
			return l, nil
		}
	}
	l.Evidence = "Its agent was lost; a last save is waited for until " + until.UTC().Format(time.RFC3339) + "."
	return l, nil
}
