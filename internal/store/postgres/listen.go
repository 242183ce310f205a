package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is what every server of the database listens on; the topic is the payload.
const channel = "holdfast"

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	// quiet is how long the connection may say nothing before it is asked whether it still lives.
	quiet = 30 * time.Second
)

// listener keeps one connection that hears what any server notifies.
type listener struct {
	config *pgx.ConnConfig
	log    *slog.Logger
	signal func(topic string)
	lost   func()
}

func (l *listener) run(ctx context.Context) {
	wait := firstRetry
	for ctx.Err() == nil {
		err := l.listen(ctx, func() { wait = firstRetry })
		if ctx.Err() != nil {
			return
		}
		l.log.Warn("lost the connection that listens for notifications", "err", err, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = min(2*wait, lastRetry)
	}
}

// listen hears notifications until the connection fails. up says that it works.
func (l *listener) listen(ctx context.Context, up func()) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	up()
	// Whatever was said while nobody listened is not repeated.
	l.lost()
	for {
		if err := l.next(ctx, conn); err != nil {
			return err
		}
	}
}

func (l *listener) next(ctx context.Context, conn *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		l.signal(n.Payload)
		return nil
	case ctx.Err() == nil && waiting.Err() != nil && !conn.IsClosed():
		asking, cancel := context.WithTimeout(ctx, quiet)
		defer cancel()
		return conn.Ping(asking)
	}
	return err
}
