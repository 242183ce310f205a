package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/link"
)

// errWorkerGone is the cause of what ends because the worker's connection ended.
var errWorkerGone = errors.New("the worker is gone")

// helloTimeout is how long a worker may take to say its first word: by then it has made sure that it is alone.
const helloTimeout = 30 * time.Second

// cleanTimeout is how long a worker may take to clear a directory.
const cleanTimeout = 60 * time.Second

// workerConn is a connection to a worker that waits for work, or works.
type workerConn struct {
	conn     *link.Conn
	hello    link.Hello
	messages chan link.Message
	gone     chan struct{} // closed when no more messages come
	quit     chan struct{}
	once     sync.Once
}

// meet waits for the worker: for its socket to be there, and for its first word.
func (b *Broker) meet(ctx context.Context) (*workerConn, error) {
	told := time.Time{}
	for pause := time.Millisecond; ; pause = min(pause*2, 500*time.Millisecond) {
		w, err := b.dial()
		if err == nil {
			return w, nil
		}
		if now := b.now(); pause > 100*time.Millisecond && now.Sub(told) > time.Minute {
			told = now
			b.log.Warn("waiting for the worker", "error", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		case <-t.C:
		}
	}
}

func (b *Broker) dial() (*workerConn, error) {
	c, err := link.Dial(b.WorkDir, link.WorkerSocket, b.WorkerUID)
	if err != nil {
		return nil, err
	}
	w := &workerConn{conn: link.NewConn(c), messages: make(chan link.Message, 16), gone: make(chan struct{}), quit: make(chan struct{})}
	m, err := w.conn.ReceiveWithin(helloTimeout)
	switch {
	case err != nil:
	case m.Hello == nil:
		err = errors.New("its first word was no hello")
	case m.Hello.Protocol != link.Protocol:
		err = fmt.Errorf("it speaks protocol %d and not %d; install broker and worker of one release", m.Hello.Protocol, link.Protocol)
	}
	if err != nil {
		_ = w.conn.Close()
		return nil, fmt.Errorf("hear the worker: %w", err)
	}
	w.hello = *m.Hello
	go w.receive()
	return w, nil
}

func (w *workerConn) receive() {
	defer close(w.gone)
	for {
		m, err := w.conn.Receive()
		if err != nil {
			return
		}
		select {
		case w.messages <- m:
		case <-w.quit:
			return
		}
	}
}

// onGone calls f when the connection ends, unless stop is called before.
func (w *workerConn) onGone(f func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-w.gone:
			f()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

func (w *workerConn) close() {
	w.once.Do(func() {
		close(w.quit)
		_ = w.conn.Close()
	})
}

// clean asks the worker to remove what is its own in the attempt's directory.
func (w *workerConn) clean(attempt string) error {
	if err := w.conn.Send(link.Message{Clean: &link.Clean{Attempt: attempt}}); err != nil {
		return err
	}
	t := time.NewTimer(cleanTimeout)
	defer t.Stop()
	for {
		select {
		case m := <-w.messages:
			if m.Cleaned != nil {
				return nil
			}
		case <-w.gone:
			return errWorkerGone
		case <-t.C:
			return errors.New("the worker does not answer")
		}
	}
}
