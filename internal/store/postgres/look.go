package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"holdfast.dev/holdfast/internal/store"
)

const (
	maxLooks  = 64 // in one packet
	lookLanes = 2  // packets on their way at once
)

// looks sends statements that read and stand alone, such as those that every request is authenticated by: those that
// wait while others are on their way share a packet, and so the round trip. One that finds nobody before it goes at
// once.
//
// Whoever finds a lane free drives: it sends what waits, its own look with it, gives out the answers, and hands the
// lane to the first that has come meanwhile.
type looks struct {
	database *database

	mu      sync.Mutex
	lanes   int // taken
	waiting []*glance
}

// glance is a statement that looks.
type glance struct {
	ctx   context.Context //nolint:containedctx // for as long as look
	query string
	args  []any

	turn   chan bool // true: drive; false: answered
	answer *answer
	err    error
}

// look has fn run its statement by ask.
func (l *looks) look(_ context.Context, fn func(store.Session) error) error { return fn(looker{l}) }

// looker is a session that looks.
type looker struct{ *looks }

func (l looker) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return l.database.rows.QueryContext(&call{Context: context.Background(), ask: l.ask, ctx: ctx}, query, args...)
}

func (l looker) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return l.database.rows.QueryRowContext(&call{Context: context.Background(), ask: l.ask, ctx: ctx}, query, args...)
}

var errOnlyLooks = errors.New("a look only reads")

func (looker) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errOnlyLooks
}

func (looker) PrepareContext(context.Context, string) (*sql.Stmt, error) { return nil, errOnlyLooks }

func (looker) Notes() map[string]any { return nil }

func (looker) Later(context.Context, func(error) error, string, ...any) error { return errOnlyLooks }

func (l *looks) ask(ctx context.Context, query string, args []any) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := &glance{ctx: ctx, query: query, args: args, turn: make(chan bool, 1)}
	if !l.enter(g) {
		select {
		case drive := <-g.turn:
			if !drive {
				return g.answer, g.err
			}
		case <-ctx.Done():
			l.giveUp(g)
			return nil, context.Cause(ctx)
		}
	}
	l.drive(g)
	return g.answer, g.err
}

// enter is true where g is to drive.
func (l *looks) enter(g *glance) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes < lookLanes {
		l.lanes++
		return true
	}
	l.waiting = append(l.waiting, g)
	return false
}

// giveUp ends the wait of a look whose context has ended. Where it was given the lane at the same moment, it has to
// drive: others wait for that.
func (l *looks) giveUp(g *glance) {
	l.mu.Lock()
	if i := slices.Index(l.waiting, g); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	select {
	case drive := <-g.turn:
		if drive {
			l.drive(g)
		}
	default: // somebody else is sending it
	}
}

// drive sends g with what waits, and hands the lane on.
func (l *looks) drive(g *glance) {
	l.mu.Lock()
	n := min(len(l.waiting), maxLooks-1)
	all := append([]*glance{g}, l.waiting[:n]...)
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.mu.Unlock()

	l.send(all)
	for _, other := range all[1:] {
		other.turn <- false
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.lanes--
		return
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	next.turn <- true
}

// send answers all, each by itself where they fail together.
func (l *looks) send(all []*glance) {
	err := l.together(all)
	for _, g := range all {
		if err != nil && len(all) > 1 {
			again := l.together([]*glance{g})
			g.err = errors.Join(g.err, again)
		} else if g.err == nil {
			g.err = err
		}
	}
}

// together sends all in one packet. Each statement sees the rows as they are when it runs.
func (l *looks) together(all []*glance) error {
	ctx := all[0].ctx
	if len(all) > 1 {
		uncut, cancel := uncut(ctx)
		defer cancel()
		ctx = uncut
	}
	c, err := l.database.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("looking: %w", err)
	}
	defer c.Release()
	s := l.database.sessionOf(c)
	s.reset()
	for _, g := range all {
		g.err = s.add(ctx, &g.answer, nil, g.query, g.args)
	}
	if len(s.waiting) == 0 {
		return nil
	}
	return s.send(ctx)
}
