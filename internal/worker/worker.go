// Package worker is the half of an agent that has customer code and cloud identity and no token: it waits for the
// broker on a socket, runs the stages of one attempt with the tool, and leaves nothing behind.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/executor"
	"holdfast.dev/holdfast/internal/worker/internal/sweep"
)

// Options are what a Worker is made of. All are required but ProviderMirror.
type Options struct {
	Settings Settings
	Host     []string // the environment, KEY=value; commands get a part of it
	Log      *slog.Logger
	Now      func() time.Time
}

// Worker serves one broker, one attempt at a time.
type Worker struct {
	Settings
	host []string
	log  *slog.Logger
	now  func() time.Time
	exec executor.Executor
	tool tofu.Version
	seen fileIdentity // of the tool's binary when its version was asked
}

// New makes a Worker. Nothing happens before Run.
func New(o Options) *Worker {
	return &Worker{Settings: o.Settings, host: o.Host, log: o.Log, now: o.Now, exec: executor.Process{}}
}

// Run serves until ctx is done. An attempt that runs then is interrupted and told about first.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	w.log.Info("worker ready", "work_dir", w.WorkDir, "tool", w.tool.String())
	for ctx.Err() == nil {
		if err := w.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the process what it has to be, and clears up after one that died.
func (w *Worker) begin(ctx context.Context) error {
	if err := w.checkUser(); err != nil {
		return err
	}
	if err := sweep.Harden(); err != nil {
		return err
	}
	// What the tool makes belongs to the group, too: the broker has to be able to remove it.
	syscall.Umask(0o007)
	if err := w.survivors(ctx); err != nil {
		return err
	}
	if err := w.alone(); err != nil {
		return err
	}
	if err := w.leftovers(); err != nil {
		return err
	}
	return w.askVersion(ctx)
}

func (w *Worker) checkUser() error {
	uid := os.Getuid()
	switch {
	case w.Unisolated:
		return nil
	case uid == 0:
		return fault.New(fault.Invalid, "worker_is_root", "The worker runs as root; it ends every process of its user, so it needs a user of its own.").
			WithHint("Run it as the user that HOLDFAST_WORKER_UID names to the broker; 1001 by default.")
	case uid == w.BrokerUID:
		return fault.New(fault.Invalid, "worker_is_broker", "The worker runs as user %d, which HOLDFAST_BROKER_UID says is the broker's; a template could then read the broker's token.", uid).
			WithHint("Give worker and broker a user each.")
	}
	return nil
}

// alone ends every other process of the user until there is none; a worker that shares its user with people ends only
// what attempts left behind.
func (w *Worker) alone() error {
	if w.Unisolated {
		return sweep.KillMarked(w.WorkDir)
	}
	return sweep.User()
}

// serve takes one connection from the broker and does what it says until it ends.
func (w *Worker) serve(ctx context.Context) error {
	if err := w.askVersion(ctx); err != nil {
		return err
	}
	c, err := w.rendezvous(ctx)
	if err != nil || c == nil {
		return err
	}
	conn := link.NewConn(c)
	defer func() { _ = conn.Close() }()
	s := &session{worker: w, conn: conn, answers: make(chan bool, 1)}
	err = conn.Send(link.Message{Hello: &link.Hello{
		Protocol: link.Protocol, Tool: toolName(w.tool), Version: w.tool.Version,
		Capabilities: []string{"executor:process", "tool:" + toolName(w.tool) + "@" + w.tool.Version},
	}})
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("the broker's connection ended", "error", err)
	}
	return nil
}

// rendezvous waits for the broker. The socket is there only while it is waited for. Without a connection, because ctx
// is done, both results are nil.
func (w *Worker) rendezvous(ctx context.Context) (*net.UnixConn, error) {
	err := os.Remove(filepath.Join(w.WorkDir, link.WorkerSocket))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an earlier worker's socket: %w", err)
	}
	l, done, err := link.Listen(w.WorkDir, link.WorkerSocket, 0o660)
	if err != nil {
		return nil, err
	}
	defer done()
	defer context.AfterFunc(ctx, done)()
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("wait for the broker: %w", err)
		}
		if err := link.CheckPeer(c, w.BrokerUID); err != nil {
			w.log.Warn("refused a connection", "error", err)
			_ = c.Close()
			continue
		}
		return c, nil
	}
}

// leftovers removes what earlier attempts left that only this user can remove, and opens the rest to the broker.
func (w *Worker) leftovers() error {
	entries, err := os.ReadDir(w.WorkDir)
	if err != nil {
		return fmt.Errorf("look for earlier attempts: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !id.Valid(id.Attempt, e.Name()) {
			continue
		}
		if err := clean(w.WorkDir, e.Name()); err != nil {
			w.log.Warn("an earlier attempt's directory cannot be cleared", "attempt", e.Name(), "error", err)
		}
	}
	return nil
}
