package httpapi

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	touchEvery   = time.Hour
	touchTimeout = 5 * time.Second
	usageEntries = 10_000
)

// usage notes when tokens are used, to the hour, outside of the requests that use them.
type usage struct {
	mu      sync.Mutex
	touched map[string]time.Time // by token id; what is lost here costs one more write
	due     chan string
}

func newUsage() *usage {
	return &usage{touched: map[string]time.Time{}, due: make(chan string, 64)}
}

// note queues the token where that was not done for an hour. A full queue is no reason to wait: the next request asks
// again.
func (u *usage) note(token string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.touched[token]; known && now.Sub(last) < touchEvery {
		return
	}
	select {
	case u.due <- token:
	default:
		return
	}
	if len(u.touched) >= usageEntries {
		clear(u.touched)
	}
	u.touched[token] = now
}

// Run does what requests leave for later, until ctx ends.
func (a *API) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case token := <-a.usage.due:
			a.touch(ctx, token)
		}
	}
}

func (a *API) touch(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	if err := a.engine.TouchToken(ctx, token); err != nil && ctx.Err() == nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "the use of a token was not noted", slog.String("token", token), slog.String("error", err.Error()))
	}
}
