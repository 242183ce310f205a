package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/link"
)

// forwardPatience is how long a connection waits for a broker that is being restarted.
const forwardPatience = 30 * time.Second

// forwarder joins a loopback port, which the tool can reach, to the broker's socket in the attempt's directory. It
// understands nothing of what passes; the broker checks the password.
type forwarder struct {
	listener net.Listener
	dir      string
	uid      int // who has to listen on the socket
	log      *slog.Logger
	stop     context.CancelFunc
	open     sync.WaitGroup
}

// newForwarder opens the port; 0 is any that is free.
func newForwarder(ctx context.Context, dir string, port, uid int, log *slog.Logger) (*forwarder, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("open a port for the state: %w", err)
	}
	// It lives on while an interrupted tool saves its state.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &forwarder{listener: l, dir: dir, uid: uid, log: log, stop: stop}
	f.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.open.Go(func() { f.join(ctx, c) })
		}
	})
	return f, nil
}

// port is the one the tool was told.
func (f *forwarder) port() string {
	_, port, _ := net.SplitHostPort(f.listener.Addr().String())
	return port
}

func (f *forwarder) address() string { return "http://" + f.listener.Addr().String() + "/state" }

// Close ends every connection.
func (f *forwarder) Close() {
	_ = f.listener.Close()
	f.stop()
	f.open.Wait()
}

func (f *forwarder) join(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := f.dial(ctx)
	if err != nil {
		f.log.Warn("the broker's state socket cannot be reached", "error", err)
		return
	}
	defer func() { _ = far.Close() }()
	defer context.AfterFunc(ctx, func() { _ = near.Close(); _ = far.Close() })()
	var both sync.WaitGroup
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	both.Wait()
}

func (f *forwarder) dial(ctx context.Context) (net.Conn, error) {
	deadline := time.NewTimer(forwardPatience)
	defer deadline.Stop()
	for pause := 5 * time.Millisecond; ; pause = min(pause*2, 200*time.Millisecond) {
		c, err := link.Dial(f.dir, link.StateSocket, f.uid)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, err
		case <-time.After(pause):
		}
	}
}

// pass copies until the source ends, and tells the target so.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if c, ok := to.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}
