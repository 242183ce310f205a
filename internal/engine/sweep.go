package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// Bounds of one sweep. What is left the next one takes.
const (
	sweepAttempts = 500
	sweepRuns     = 50
	sweepChunks   = 2000
	stagedAge     = time.Hour // of what was staged and never attached
	// sweepGap is a pause between sweeps after which this server cannot say whether it would have heard an agent: it
	// was stopped, or could not reach its database.
	sweepGap = 30 * time.Second
)

// Sweep is the engine's clock and safety net; it is called every few seconds, on every server. It takes back offers
// that nobody accepted, gives up attempts whose agents were not heard of, and takes on runs that a crash left
// standing. One part's failure does not keep the other from being done.
func (e *Engine) Sweep(ctx context.Context) error {
	return errors.Join(e.OpenAuditKey(ctx), e.sweepAttempts(ctx), e.sweepRuns(ctx))
}

// uptime is since when this server would have heard the agents.
type uptime struct {
	mu    sync.Mutex
	since time.Time
	last  time.Time // of the last sweep that reached the database
	after string    // the run that the last sweep ended with
}

// alive notes a sweep that reached the database and says since when there was one at least every sweepGap.
func (u *uptime) alive(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since.IsZero() || now.Sub(u.last) > sweepGap {
		u.since = now
	}
	u.last = now
	return u.since
}

func (u *uptime) cursor() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.after
}

func (u *uptime) setCursor(after string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.after = after
}

func (e *Engine) sweepAttempts(ctx context.Context) error {
	now := e.now()
	var stale []run.Attempt
	err := e.store.View(ctx, func(tx Tx) error {
		stale = stale[:0]
		ids, err := tx.StaleAttempts(ctx, now.Add(-offerLifetime), sweepAttempts)
		if err != nil {
			return err
		}
		for _, attempt := range ids {
			a, err := tx.Attempt(ctx, attempt)
			if err != nil {
				return err
			}
			stale = append(stale, a)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for silent attempts: %w", err)
	}
	since := e.up.alive(now)
	var errs []error
	for _, a := range stale {
		limit := now.Add(-e.limits.HeartbeatTimeout)
		switch {
		case a.Status == run.AttemptOffered:
			errs = append(errs, e.returnOffer(ctx, a.ID, "not accepted in time"))
		case lastSign(a).Before(limit) && since.Before(limit):
			errs = append(errs, e.lose(ctx, a.ID, limit))
		}
	}
	return errors.Join(errs...)
}

// sweepRuns takes on open runs that have a step to take: some of them with each sweep, in turns.
func (e *Engine) sweepRuns(ctx context.Context) error {
	var ids []string
	err := e.store.View(ctx, func(tx Tx) (err error) {
		ids, err = tx.OpenRuns(ctx, e.up.cursor(), sweepRuns)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for open runs: %w", err)
	}
	var errs []error
	for _, runID := range ids {
		due, err := e.due(ctx, runID)
		if err == nil && due {
			err = e.Advance(ctx, runID)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("take on run %s: %w", runID, err))
		}
	}
	if len(ids) < sweepRuns {
		e.up.setCursor("")
	} else {
		e.up.setCursor(ids[len(ids)-1])
	}
	return errors.Join(errs...)
}

// due reports, without a lock, whether the run may have a step to take. It may say yes in vain, never no.
func (e *Engine) due(ctx context.Context, runID string) (due bool, err error) {
	err = e.store.View(ctx, func(tx Tx) error {
		r, err := tx.Run(ctx, "", runID)
		if err != nil {
			return err
		}
		tasks, err := tx.Tasks(ctx, runID)
		if err != nil {
			return err
		}
		waiting := false // for an agent
		for _, t := range tasks {
			waiting = waiting || !t.Status.Final()
		}
		switch r.Status {
		case run.AwaitingApproval:
			due = r.Approval.Status == run.ApprovalGiven || e.limits.PlanMaxAge > 0
		case run.Queued:
			ahead, err := tx.RunAhead(ctx, r.Stack, r.ID)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			due = r.Kind == run.Preview || ahead == "" || ahead != r.WaitsFor
		default:
			due = !r.Status.Final() && !waiting
		}
		return nil
	})
	return due, err
}

// Housekeep deletes what is kept no longer: bytes that were staged and never attached, sessions that have ended, and
// states that were deleted longer ago than they can be restored. It lists the resources of states that have no list.
// One call every few minutes is enough for all servers; what it leaves the next one takes.
func (e *Engine) Housekeep(ctx context.Context) error {
	now := e.now()
	err := e.store.Update(ctx, func(tx Tx) error {
		if _, err := tx.SweepStaged(ctx, now.Add(-stagedAge), sweepChunks); err != nil {
			return err
		}
		return tx.SweepSessions(ctx, now)
	})
	if err != nil {
		return fmt.Errorf("clear what is left over: %w", err)
	}
	return errors.Join(e.sweepDeleted(ctx), e.sweepBlobs(ctx), e.listMissing(ctx))
}
