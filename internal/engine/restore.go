package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// Restored says which older state of the installation has come back.
type Restored struct {
	Backup  string    // id of the backup; or of the occasion, where the database came back by its own means
	TakenAt time.Time // when it was made; zero where nobody knows
}

// RestoreReport is what was done about the past that has come back, and what is left to people.
type RestoreReport struct {
	AttemptsLost  int           // agents that were at work
	Ended         []run.Run     // runs that were under way
	Waiting       []run.Run     // runs that wait for an approval, and still do
	Locked        []state.State // with a lock
	Held          []state.State // with a hold
	Organizations []RestoredOrganization
}

// RestoredOrganization is an organization, and the end of its audit chain with the record of the restore.
type RestoredOrganization struct {
	access.Organization

	Anchor string // SEQ:HASH
}

const (
	restoredAction = "admin.restored"
	restoredWhy    = "the installation was restored from a backup"
	settleBatch    = 500
	// ever is later than every sign of life.
	ever = 100 * 365 * 24 * time.Hour
)

// AfterRestore settles what an older state of the installation cannot know: nothing that was under way goes on by itself,
// because nobody knows how it went on after the backup. Attempts at work are lost, as if their agents had not been heard
// of; runs end, but those that wait for a person, who can see that the plan is old; what locks there are stay, since a
// tool may still be running out there: an attempt's has its grace, a person's is for a person to release. It may be
// repeated; each organization gets one record of it.
func (e *Engine) AfterRestore(ctx context.Context, r Restored) (report RestoreReport, err error) {
	if err := e.OpenAuditKey(ctx); err != nil {
		return report, err
	}
	open, err := e.allOpenRuns(ctx)
	if err != nil {
		return report, err
	}
	// The queued ones first: they would begin when what they wait for ends.
	if err := e.settleRuns(ctx, open, run.Queued); err != nil {
		return report, err
	}
	if report.AttemptsLost, err = e.settleAttempts(ctx); err != nil {
		return report, err
	}
	if err := e.settleRuns(ctx, open, run.Planning, run.AwaitingApproval, run.Applying, run.Verifying, run.Cancelling); err != nil {
		return report, err
	}
	if err := e.tellSettled(ctx, open, &report); err != nil {
		return report, err
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var orgs []access.Organization
		err := e.store.View(ctx, func(tx Tx) (err error) {
			orgs, cursor, err = tx.Organizations(ctx, Page{Limit: 100, Cursor: cursor})
			return err
		})
		if err != nil {
			return report, fmt.Errorf("list the organizations: %w", err)
		}
		for _, o := range orgs {
			if err := e.settleOrganization(ctx, o, r, &report); err != nil {
				return report, fmt.Errorf("settle the organization %s: %w", o.Name, err)
			}
		}
	}
	return report, nil
}

// settleAttempts ends every attempt that is not at its end.
func (e *Engine) settleAttempts(ctx context.Context) (lost int, err error) {
	before := e.now().Add(ever)
	for {
		var open []run.Attempt
		err := e.store.View(ctx, func(tx Tx) error {
			open = open[:0]
			ids, err := tx.StaleAttempts(ctx, before, settleBatch)
			if err != nil {
				return err
			}
			for _, id := range ids {
				a, err := tx.Attempt(ctx, id)
				if err != nil {
					return err
				}
				open = append(open, a)
			}
			return nil
		})
		if err != nil || len(open) == 0 {
			return lost, err
		}
		for _, a := range open {
			if a.Status == run.AttemptOffered {
				err = e.returnOffer(ctx, a.ID, restoredWhy)
			} else if err = e.lose(ctx, a.ID, before); err == nil {
				lost++
			}
			if err != nil {
				return lost, fmt.Errorf("end the attempt %s: %w", a.ID, err)
			}
		}
	}
}

// allOpenRuns are the ids of the runs that have not ended, oldest first.
func (e *Engine) allOpenRuns(ctx context.Context) (all []string, err error) {
	for after := ""; ; after = all[len(all)-1] {
		var ids []string
		err := e.store.View(ctx, func(tx Tx) (err error) {
			ids, err = tx.OpenRuns(ctx, after, settleBatch)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for open runs: %w", err)
		}
		if all = append(all, ids...); len(ids) < settleBatch {
			return all, nil
		}
	}
}

// settleRuns ends those of the runs that are in one of the statuses.
func (e *Engine) settleRuns(ctx context.Context, ids []string, in ...run.Status) error {
	for _, id := range ids {
		_, err := e.change(ctx, "", id, func(ctx context.Context, tx Tx, r *run.Run) error {
			if !slices.Contains(in, r.Status) {
				return nil
			}
			return e.settleRun(ctx, tx, r)
		})
		if err != nil {
			return fmt.Errorf("end the run %s: %w", id, err)
		}
	}
	return nil
}

// settleRun ends a run, unless it waits for a person.
func (e *Engine) settleRun(ctx context.Context, tx Tx, r *run.Run) error {
	if r.Status == run.AwaitingApproval && r.Approval.Status == run.ApprovalPending {
		return e.tell(ctx, tx, r, happened{
			level: warning, kind: "run.restored", phase: phaseApproval,
			text: restoredWhy + " made when this plan waited for approval; look whether it was applied since",
		})
	}
	how := ending{class: run.Refused, message: restoredWhy + " made while this was under way; start a new run"}
	for _, c := range r.Components {
		how.partial = how.partial || c.Status == run.ComponentApplying // nobody knows, so it may
	}
	for _, t := range []run.Trigger{run.Discard, run.Stop, run.Fail} {
		if _, err := r.Status.On(t); err == nil {
			return e.end(ctx, tx, r, t, how)
		}
	}
	return fmt.Errorf("it is %s and cannot be ended", r.Status)
}

// tellSettled says what became of the runs.
func (e *Engine) tellSettled(ctx context.Context, ids []string, report *RestoreReport) error {
	for _, id := range ids {
		var r run.Run
		err := e.store.View(ctx, func(tx Tx) (err error) {
			r, err = tx.Run(ctx, "", id)
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("read the run %s: %w", id, err)
		case r.Status.Final():
			report.Ended = append(report.Ended, r)
		default:
			report.Waiting = append(report.Waiting, r)
		}
	}
	return nil
}

// settleOrganization records the restore, and looks what is locked.
func (e *Engine) settleOrganization(ctx context.Context, o access.Organization, r Restored, report *RestoreReport) error {
	for _, f := range []struct {
		filter StateFilter
		into   *[]state.State
	}{{StateFilter{Org: o.ID, Locked: true}, &report.Locked}, {StateFilter{Org: o.ID, Held: true}, &report.Held}} {
		for cursor, more := "", true; more; more = cursor != "" {
			var page []state.State
			err := e.store.View(ctx, func(tx Tx) (err error) {
				page, cursor, err = tx.States(ctx, f.filter, Page{Limit: settleBatch, Cursor: cursor})
				return err
			})
			if err != nil {
				return err
			}
			*f.into = append(*f.into, page...)
		}
	}
	actor := access.Actor{Kind: access.System, Org: o.ID, Name: "after-restore"}
	anchor := ""
	err := e.store.Update(ctx, func(tx Tx) error {
		known, _, err := tx.Audit(ctx, AuditFilter{Org: o.ID, Action: restoredAction, Object: r.Backup}, Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(known) == 0 {
			data := map[string]any{"attempts_lost": report.AttemptsLost, "runs_ended": len(report.Ended)}
			if !r.TakenAt.IsZero() {
				data["taken_at"] = r.TakenAt.UTC().Format(time.RFC3339)
			}
			if err := e.record(ctx, tx, actor, restoredAction, r.Backup, data); err != nil {
				return err
			}
		}
		tail, err := tx.AuditTail(ctx, o.ID)
		anchor = fmt.Sprintf("%d:%s", tail.Seq, tail.Hash)
		return err
	})
	report.Organizations = append(report.Organizations, RestoredOrganization{o, anchor})
	return err
}
