package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"holdfast.dev/holdfast/internal/store"
)

// maxBatch bounds how many updates share a commit, so that the first one does not wait for ever for the last.
const maxBatch = 64

// errAgain tells an update that its batch was rolled back by another one's failure.
var errAgain = errors.New("the shared transaction was rolled back")

// group lets updates that wait together share one commit, since a commit costs a sync of the disk and a small
// update next to nothing.
//
// The turn passes from update to update, first come, first served. Who has it runs its own function, on its own
// goroutine, in a savepoint; then passes it on where somebody waits, and waits for the commit; else commits for
// all. A lone update so runs without any handing over.
type group struct {
	session *session
	turns   store.Turns

	// Of whoever has the turn:
	batch *batch // nil where no transaction is open
}

// batch is the updates that share a commit.
type batch struct {
	done chan struct{} // closed when the commit has ended
	err  error         // of the commit; set before done is closed
	size int           // updates that are in it
	all  int           // updates that ever were, rolled back ones too
}

func newGroup(ctx context.Context, db *sql.DB) (*group, error) {
	s, err := newSession(ctx, db)
	if err != nil {
		return nil, err
	}
	g := &group{session: s}
	g.turns.Most = maxBatch
	g.turns.Joined = func() int {
		if g.batch == nil {
			return 0
		}
		return g.batch.all
	}
	g.turns.Commit = func() { _ = g.commit() } // told to those who wait for it
	return g, nil
}

// close waits for the updates that have come before it. Those that come later find the connection closed.
func (g *group) close() error {
	if err := g.turns.Take(context.Background(), 0); err != nil {
		return err
	}
	defer g.turns.Pass()
	return errors.Join(g.commit(), g.session.close())
}

func (g *group) update(ctx context.Context, fn func(store.Session) error) error {
	for {
		err := g.once(ctx, fn)
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

func (g *group) once(ctx context.Context, fn func(store.Session) error) error {
	if err := g.turns.Take(ctx, 0); err != nil {
		return err
	}
	b, err := g.part(ctx, fn)
	if err != nil {
		return err
	}
	<-b.done // not bounded by ctx: whether the update happened must be known
	return b.err
}

// part runs fn as a part of the batch, and passes the turn on, whatever becomes of fn: it may panic, or end its
// goroutine as tests do. The batch is what to wait for.
func (g *group) part(ctx context.Context, fn func(store.Session) error) (b *batch, err error) {
	finished := false
	defer func() {
		if !finished || err != nil {
			err = errors.Join(err, g.undo())
		}
		g.turns.Pass()
	}()
	if err := g.join(); err != nil {
		finished = true
		return nil, err
	}
	b = g.batch
	err = fn(g.session)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && b.size > 0 {
		err = g.session.run("RELEASE part")
	}
	if err == nil {
		b.size++
	}
	finished = true
	return b, err
}

// join opens a transaction, or a savepoint where one is open that others have written in.
func (g *group) join() error {
	switch {
	case g.batch == nil:
		if err := g.session.run("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		clear(g.session.notes)
		g.batch = &batch{done: make(chan struct{})}
	case g.batch.size > 0:
		if err := g.session.run("SAVEPOINT part"); err != nil {
			return err
		}
	}
	g.batch.all++
	return nil
}

// undo takes the failed part out of the batch: where it is alone in it, by ending the transaction. SQLite ends
// the transaction by itself on failures such as a full disk; then the others have to run again.
func (g *group) undo() error {
	clear(g.session.notes)
	b := g.batch
	if b == nil {
		return nil
	}
	if b.size > 0 {
		if g.session.run("ROLLBACK TO part") == nil && g.session.run("RELEASE part") == nil {
			return nil
		}
	}
	g.batch = nil
	b.err = errAgain
	close(b.done)
	return g.rollback()
}

// rollback leaves the connection without a transaction, whether or not SQLite has ended it already.
func (g *group) rollback() error {
	if g.session.run("ROLLBACK") == nil {
		return nil
	}
	// There is no asking database/sql whether a transaction is open; opening one tells.
	if err := g.session.run("BEGIN"); err != nil {
		return fmt.Errorf("leaving a failed transaction: %w", err)
	}
	return g.session.run("ROLLBACK")
}

// commit ends the batch and tells those who wait for it.
func (g *group) commit() error {
	b := g.batch
	if b == nil {
		return nil
	}
	g.batch = nil
	if err := g.session.run("COMMIT"); err != nil {
		b.err = errors.Join(err, g.rollback())
	}
	close(b.done)
	return b.err
}
