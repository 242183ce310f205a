// Package jobs runs what has to happen without being asked for: River keeps it in the store's own database, elects
// the one server that says when, and lets any server do it.
package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// Sweeper moves on what waits for time alone: runs, lost attempts, offers nobody took.
type Sweeper interface {
	// Sweep may run on several servers at once, and be ended at any point.
	Sweep(ctx context.Context) error
}

// Housekeeper deletes what is kept no longer.
type Housekeeper interface {
	// Housekeep may run on several servers at once, and be ended at any point.
	Housekeep(ctx context.Context) error
}

// Database is where jobs are kept. A *store.Store is one.
type Database interface {
	Queue() riverdriver.Driver[*sql.Tx]
	// Alone runs fn while no other server is in it.
	Alone(ctx context.Context, fn func(context.Context) error) error
}

// Options is what jobs need. All of it is required but the intervals.
type Options struct {
	Database    Database
	Sweeper     Sweeper // nil where every server sweeps by itself
	Housekeeper Housekeeper
	Logger      *slog.Logger

	SweepEvery     time.Duration // 5 s where zero
	HousekeepEvery time.Duration // 5 min where zero
}

const (
	sweepEvery      = 5 * time.Second
	housekeepEvery  = 5 * time.Minute
	sweepWithin     = time.Minute
	housekeepWithin = 4 * time.Minute
	// stopWithin is how long jobs may go on after the server was told to stop.
	stopWithin = 10 * time.Second
	// rescueAfter is when a job whose server died is given up. The next one does not wait for it.
	rescueAfter = 10 * time.Minute
)

// Jobs is the background work of one server.
type Jobs struct {
	client *river.Client[*sql.Tx]
}

// New makes River's tables where they are missing or old. Nothing runs before Run.
func New(ctx context.Context, o Options) (*Jobs, error) {
	if o.SweepEvery == 0 {
		o.SweepEvery = sweepEvery
	}
	if o.HousekeepEvery == 0 {
		o.HousekeepEvery = housekeepEvery
	}
	// Its reports of what it does each second are for those who work on River.
	logger := slog.New(atLeast{o.Logger.Handler(), slog.LevelWarn})
	if err := migrate(ctx, o.Database, logger); err != nil {
		return nil, fmt.Errorf("making the tables of background jobs: %w", err)
	}
	workers := river.NewWorkers()
	queues := map[string]river.QueueConfig{housekeep{}.Kind(): {MaxWorkers: 1}}
	due := []*river.PeriodicJob{periodic(housekeep{}, o.HousekeepEvery)}
	if o.Sweeper != nil {
		river.AddWorker(workers, &worker[sweep]{do: o.Sweeper.Sweep, within: sweepWithin, every: o.SweepEvery})
		queues[sweep{}.Kind()] = river.QueueConfig{MaxWorkers: 1}
		due = append(due, periodic(sweep{}, o.SweepEvery))
	}
	river.AddWorker(workers, &worker[housekeep]{do: o.Housekeeper.Housekeep, within: housekeepWithin, every: o.HousekeepEvery})
	queue := o.Database.Queue()
	client, err := river.NewClient(queue, &river.Config{
		// A queue of its own with one worker each: a server does one sweep at a time, and never waits with it for
		// the housekeeping.
		Queues:               queues,
		Workers:              workers,
		PeriodicJobs:         due,
		JobTimeout:           housekeepWithin,
		RescueStuckJobsAfter: rescueAfter,
		// Thousands of sweeps a day say nothing once they are done.
		CompletedJobRetentionPeriod: 10 * time.Minute,
		DiscardedJobRetentionPeriod: 24 * time.Hour,
		SoftStopTimeout:             stopWithin,
		// Without notifications of its own, SQLite is asked for them twenty times a second. A job that is seen a
		// second later costs half as much.
		PollOnly: queue.DatabaseName() == "sqlite",
		Logger:   logger,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up background jobs: %w", err)
	}
	return &Jobs{client: client}, nil
}

func migrate(ctx context.Context, database Database, logger *slog.Logger) error {
	migrator, err := rivermigrate.New(database.Queue(), &rivermigrate.Config{Logger: logger})
	if err != nil {
		return err
	}
	return database.Alone(ctx, func(ctx context.Context) error {
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
}

// Run does jobs until ctx ends; then it waits for those that run, 10 seconds before it ends them.
func (j *Jobs) Run(ctx context.Context) error {
	if err := j.client.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("starting background jobs: %w", err)
	}
	<-j.client.Stopped()
	return nil
}

// kind is the arguments of a job that takes none.
type kind interface {
	comparable
	river.JobArgs
}

type sweep struct{}

func (sweep) Kind() string { return "sweep" }

type housekeep struct{}

func (housekeep) Kind() string { return "housekeep" }

// periodic is a job that is made every so often by the leading server, and at once by one that starts to lead.
func periodic[T kind](args T, every time.Duration) *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(every), func() (river.JobArgs, *river.InsertOpts) {
		// Not tried again, since the next one does the same.
		return args, &river.InsertOpts{Queue: args.Kind(), MaxAttempts: 1}
	}, &river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true})
}

type worker[T kind] struct {
	river.WorkerDefaults[T]
	do     func(context.Context) error
	within time.Duration
	every  time.Duration
}

func (w *worker[T]) Timeout(*river.Job[T]) time.Duration { return w.within }

// Work leaves out a job that waited so long that the next one is there: what does not keep up must not pile up.
func (w *worker[T]) Work(ctx context.Context, job *river.Job[T]) error {
	if job.AttemptedAt != nil && job.AttemptedAt.Sub(job.ScheduledAt) > 2*w.every {
		return nil
	}
	if err := w.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", job.Kind, err)
	}
	return nil
}

// atLeast lets records of a level pass, and those above it.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
