package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast.dev/holdfast/internal/store"
)

const (
	// maxBatch bounds how many updates share a commit, so that the first one does not wait for ever for the last.
	maxBatch = 32
	// patience is how long an update waits for its turn. What holds the others up, such as a lock that another server
	// has, then holds it up no longer.
	patience = 100 * time.Millisecond
	// sharedLocks bounds the wait for a lock while others' updates are in the same transaction. They have locks too,
	// taken in an order that no single update would take them in; whoever has the one that is waited for may be waiting
	// for one of those.
	sharedLocks = "SET LOCAL lock_timeout = '250ms'"
)

// errAlone tells an update to run in a transaction of its own: the one it was part of was rolled back, or too long in
// coming.
var errAlone = errors.New("the shared transaction was rolled back")

// group lets updates of this server that wait together share a transaction. What they save is round trips, since the
// writes of one travel with the first read of the next, and syncs of the database's disk: two saves of an organization
// could never share one otherwise, because its audit chain is one's own until the commit is on the disk.
//
// The turn passes from update to update, first come, first served. Who has it runs its own function, on its own
// goroutine; then passes it on where somebody waits, else commits for all. There are no savepoints, which would cost
// each update what failures cost now and then: an update that has to be undone after it has written, or a statement that
// fails, ends the transaction, and all that were in it run again, alone.
type group struct {
	database *database
	patience time.Duration
	turns    store.Turns

	// Of whoever has the turn:
	batch *batch // nil where no transaction is open
}

// batch is the updates that share a transaction.
type batch struct {
	conn    *pgxpool.Conn
	session *session
	done    chan struct{} // closed when the transaction has ended
	err     error         // what came of it; set before done is closed
	size    int           // updates that are in it
	all     int           // updates that ever were, undone ones too
}

func newGroup(p *database) *group {
	g := &group{database: p, patience: patience}
	g.turns.Most = maxBatch
	g.turns.Joined = func() int {
		if g.batch == nil {
			return 0
		}
		return g.batch.all
	}
	g.turns.Commit = g.commit
	return g
}

// update runs fn as part of a transaction. With errAlone nothing of it has happened.
func (g *group) update(ctx context.Context, fn func(store.Session) error) error {
	err := g.turns.Take(ctx, g.patience)
	if errors.Is(err, store.ErrLate) {
		return errAlone
	}
	if err != nil {
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
	var before place
	defer func() {
		if b != nil && (!finished || err != nil) {
			err = g.undo(before, err)
		}
		g.turns.Pass()
	}()
	if b, err = g.join(ctx); err != nil {
		return nil, err
	}
	before = b.session.next()
	err = fn(b.session)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		b.size++
	}
	finished = true
	return b, err
}

// join gives the batch that is open, or opens one.
func (g *group) join(ctx context.Context) (*batch, error) {
	b := g.batch
	if b == nil {
		c, err := g.database.begin(ctx, beginUpdate)
		if err != nil {
			return nil, err
		}
		b = &batch{conn: c, session: g.database.sessionOf(c), done: make(chan struct{})}
		g.batch = b
	} else if b.all == 1 {
		if err := b.session.Later(context.WithoutCancel(ctx), nil, sharedLocks); err != nil {
			return nil, g.undo(b.session.next(), err)
		}
	}
	b.all++
	return b, nil
}

// undo takes a part that has failed with err out of the batch, or ends the batch where that cannot be done. What is
// wrong may then be another one's doing.
func (g *group) undo(before place, err error) error {
	b := g.batch
	if b.session.undo(before) {
		return err
	}
	if b.session.broken && b.size > 0 {
		err = errAlone
	}
	g.batch = nil
	g.end(b, errAlone)
	return err
}

// end leaves no transaction open, and tells those who wait for it.
func (g *group) end(b *batch, err error) {
	b.session.rollback()
	b.conn.Release()
	b.err = err
	close(b.done)
}

// commit ends the batch. Where it is certain that nothing was committed, its updates run again, but for a lone one: what
// failed is its own doing.
func (g *group) commit() {
	b := g.batch
	g.batch = nil
	if b.size == 0 {
		g.end(b, nil)
		return
	}
	err := b.session.commit(context.Background())
	if err != nil && b.size > 1 && !b.session.conn.IsClosed() {
		err = errAlone
	}
	g.end(b, err)
}
