// Package store keeps the engine's rows in SQLite or PostgreSQL: one text of SQL and one set of migrations for
// both. Where the databases differ is said in Dialect and nowhere else.
package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
)

// Store is a database that keeps the engine's rows. It is an engine.Store.
type Store struct {
	d       Dialect
	hub     *hub
	schema  *goose.Provider
	stop    context.CancelFunc
	waiting sync.WaitGroup
	closed  atomic.Bool
	close   func() error
}

var _ engine.Store = (*Store)(nil)

// New brings the database's schema up to date and starts to listen. It owns the dialect: where it fails, it has
// closed it. Packages sqlite and postgres call it.
//
// A database into which a backup was restored is refused until the restore is finished and what has to follow it was
// done.
func New(ctx context.Context, d Dialect) (*Store, error) {
	s, listening, err := attach(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := s.notRestoring(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Upgrade(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if d.Listen != nil {
		s.listen(ctx, listening)
	}
	return s, nil
}

// Attach takes the database as it is, for an administrator's command: it neither changes the schema nor listens. Like
// New, it owns the dialect.
func Attach(ctx context.Context, d Dialect) (*Store, error) {
	s, _, err := attach(ctx, d)
	return s, err
}

func attach(ctx context.Context, d Dialect) (*Store, context.Context, error) {
	s := &Store{d: d, hub: newHub()}
	var err error
	if s.schema, err = newProvider(d); err != nil {
		return nil, nil, errors.Join(s.fault("", "reading the migrations", err), d.Close())
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.close = sync.OnceValue(func() error {
		s.closed.Store(true)
		s.stop()
		s.waiting.Wait()
		return s.d.Close()
	})
	return s, listening, nil
}

// Upgrade brings the schema up to date.
func (s *Store) Upgrade(ctx context.Context) error {
	return s.fault("", "bringing the database's schema up to date", s.migrate(ctx))
}

// listen waits until somebody listens, so that what is said from then on is heard; not for long, since a server
// whose signals are late is better than none.
func (s *Store) listen(ctx, listening context.Context) {
	first := make(chan struct{})
	heard := sync.OnceFunc(func() { close(first) })
	s.waiting.Go(func() {
		s.d.Listen(listening, s.hub.signal, func() {
			s.hub.signalAll()
			heard()
		})
	})
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close ends listening and closes the database. Transactions that run are waited for.
func (s *Store) Close() error { return s.close() }

// View runs fn on a consistent snapshot, as engine.Store says.
func (s *Store) View(ctx context.Context, fn func(engine.Tx) error) error {
	err := s.d.View(ctx, func(session Session) error {
		t := newTx(s, session, false)
		defer t.end()
		return t.result(fn(t))
	})
	return s.fault("", "reading", err)
}

// Look runs fn for one statement that reads, as engine.Store says.
func (s *Store) Look(ctx context.Context, fn func(engine.Tx) error) error {
	err := s.d.Look(ctx, func(session Session) error {
		t := newTx(s, session, false)
		t.single = true
		defer t.end()
		return t.result(fn(t))
	})
	return s.fault("", "reading", err)
}

// Update runs fn in one transaction, as engine.Store says. A statement that failed ends the transaction: every
// later one fails with the same error, and so does Update even where fn returns nil. PostgreSQL works that way,
// and SQLite is made to.
//
// Where the connection breaks during the commit, Update says Unavailable although the commit may have happened;
// callers repeat by means that notice what is there.
func (s *Store) Update(ctx context.Context, fn func(engine.Tx) error) error {
	var topics []string
	err := s.d.Update(ctx, func(session Session) error {
		t := newTx(s, session, true)
		defer t.end()
		err := fn(t)
		if err == nil {
			err = t.tell(ctx)
		}
		topics = t.topics
		return t.result(err)
	})
	if err != nil {
		return s.fault("", "writing", err)
	}
	for _, topic := range topics {
		s.hub.signal(topic)
	}
	return nil
}

// Subscribe tells of committed Notify calls for topic.
func (s *Store) Subscribe(topic string) (signals <-chan struct{}, stop func()) {
	return s.hub.subscribe(topic)
}

// Queue is what background jobs are kept in: the same database, seen by River.
func (s *Store) Queue() riverdriver.Driver[*sql.Tx] { return s.d.Queue }

// fault gives a database's error its public side. It leaves faults, and errors of others, as they are.
func (s *Store) fault(noun, doing string, err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if noun == "" {
		noun = "record"
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, sql.ErrTxDone): // rolled back by database/sql as the context ended
		return fault.Wrap(err, fault.Unavailable, "interrupted", "The request ended before the database had answered.")
	case errors.Is(err, sql.ErrNoRows):
		return fault.New(fault.NotFound, noun2code(noun)+"_not_found", "There is no such %s.", noun)
	}
	cause := &whileDoing{doing, err}
	class := s.d.Classify(err)
	if s.closed.Load() {
		class = Lost // drivers have no name for it
	}
	switch class {
	case Unique:
		return fault.Wrap(cause, fault.Conflict, noun2code(noun)+"_exists", "That %s exists already.", noun)
	case Foreign:
		return fault.Wrap(cause, fault.Conflict, "broken_reference",
			"The %s refers to something that does not exist, or something refers to it.", noun)
	case Busy:
		return fault.Wrap(cause, fault.Unavailable, "database_busy", "The database is busy. Nothing was changed.").
			WithHint("Try again in a moment.")
	case Lost:
		return fault.Wrap(cause, fault.Unavailable, "database_unavailable", "The database cannot be reached.").
			WithHint("Try again in a moment. If it stays so, look at the database's log.")
	case Full:
		return fault.Wrap(cause, fault.NoSpace, "database_full", "The database's disk is full. Nothing was changed.").
			WithHint("Free some space, then try again.")
	}
	return cause
}

// whileDoing says what was being done when a driver failed.
type whileDoing struct {
	doing string
	err   error
}

func (w *whileDoing) Error() string { return w.doing + ": " + w.err.Error() }
func (w *whileDoing) Unwrap() error { return w.err }
