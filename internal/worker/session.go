package worker

import (
	"context"
	"errors"
	"io"

	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/link"
)

// Why an attempt ends early; the cause of its context.
var (
	errBrokerGone = errors.New("the broker is gone")
	errStopping   = errors.New("the worker was stopped")
)

// cancelled is the cause that a broker's Cancel gives.
type cancelled struct{ reason string }

func (c cancelled) Error() string {
	switch c.reason {
	case link.ReasonDrain:
		return "the agent is being stopped"
	case link.ReasonSuperseded:
		return "another attempt has taken over"
	case link.ReasonRevoked:
		return "the agent's token is not accepted any more"
	}
	return "it was cancelled"
}

// session is one connection: at most one attempt, and cleaning.
type session struct {
	worker  *Worker
	conn    *link.Conn
	answers chan bool
}

func (s *session) run(ctx context.Context) error {
	messages := make(chan link.Message)
	ended := make(chan error, 1)
	quit := make(chan struct{})
	defer close(quit)
	go func() {
		for {
			m, err := s.conn.Receive()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- m:
			case <-quit:
				return
			}
		}
	}()
	begun := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case m := <-messages:
			var err error
			switch {
			case m.Clean != nil && id.Valid(id.Attempt, m.Clean.Attempt):
				err = s.clean(m.Clean.Attempt)
			case m.Begin != nil && !begun && id.Valid(id.Attempt, m.Begin.Attempt):
				begun = true
				err = s.attempt(ctx, *m.Begin, messages, ended)
			case m.Cancel != nil || m.Answer != nil: // came late
			default:
				return errors.New("the broker said something that is not expected now")
			}
			if err != nil {
				return err
			}
		}
	}
}

// attempt runs the work and listens meanwhile.
func (s *session) attempt(ctx context.Context, b link.Begin, messages <-chan link.Message, ended chan error) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := make(chan link.Result, 1)
	go func() { result <- s.worker.attempt(work, b, s) }()
	stop := ctx.Done()
	var gone error
	for {
		select {
		case r := <-result:
			if gone != nil {
				return gone
			}
			return s.conn.Send(link.Message{Result: &r})
		case <-stop:
			cancel(errStopping)
			stop = nil
		case gone = <-ended:
			cancel(errBrokerGone)
			ended = nil
		case m := <-messages:
			switch {
			case m.Cancel != nil:
				cancel(cancelled{m.Cancel.Reason})
			case m.Answer != nil:
				select {
				case s.answers <- m.Answer.Go:
				default: // nobody asked
				}
			}
		}
	}
}

// clean removes what is this user's own in an attempt's directory. Nothing runs any more that could put it back: the
// worker has been alone since it began to listen, or since the attempt ended.
func (s *session) clean(attempt string) error {
	if err := clean(s.worker.WorkDir, attempt); err != nil {
		s.worker.log.Warn("an attempt's directory cannot be cleared", "attempt", attempt, "error", err)
	}
	return s.conn.Send(link.Message{Cleaned: &link.Cleaned{}})
}
