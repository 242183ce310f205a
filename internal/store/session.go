package store

import (
	"context"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/store/db"
)

func (t *tx) CreateSession(ctx context.Context, s access.Session) error {
	return t.err("creating", "session", t.q.CreateSession(ctx, db.CreateSessionParams{
		Hash: s.Hash, UserID: s.User, Org: s.Org, CreatedAt: micros(s.CreatedAt), ExpiresAt: micros(s.ExpiresAt),
	}))
}

func (t *tx) Session(ctx context.Context, hash string) (access.Session, access.UserRecord, access.Allocation, error) {
	row, err := t.q.Session(ctx, hash)
	if err != nil {
		return access.Session{}, access.UserRecord{}, nil, t.err("reading", "session", err)
	}
	u, err := user(row.User)
	return access.Session{
		Hash: row.Session.Hash, User: row.Session.UserID, Org: row.Session.Org,
		CreatedAt: moment(row.Session.CreatedAt), ExpiresAt: moment(row.Session.ExpiresAt),
	}, u, allocation(row.Allocation), err
}

// DeleteSession is nil where there is no such session: signing out twice is no failure.
func (t *tx) DeleteSession(ctx context.Context, hash string) error {
	return t.err("deleting", "session", t.q.DeleteSession(ctx, hash))
}

// SweepSessions deletes the sessions and sign-in links that ended before the time given.
func (t *tx) SweepSessions(ctx context.Context, before time.Time) error {
	if err := t.q.SweepSessions(ctx, micros(before)); err != nil {
		return t.err("sweeping", "session", err)
	}
	return t.err("sweeping", "sign-in link", t.q.SweepSignInLinks(ctx, micros(before)))
}

func (t *tx) CreateSignInLink(ctx context.Context, l access.SignInLink) error {
	return t.err("creating", "sign-in link", t.q.CreateSignInLink(ctx, db.CreateSignInLinkParams{
		Hash: l.Hash, UserID: l.User, ExpiresAt: micros(l.ExpiresAt), UsedAt: micros(l.UsedAt),
	}))
}

func (t *tx) UseSignInLink(ctx context.Context, hash string, now time.Time) (access.SignInLink, error) {
	row, err := t.q.UseSignInLink(ctx, micros(now), hash)
	if err != nil {
		return access.SignInLink{}, t.err("using", "sign-in link", err)
	}
	return access.SignInLink{
		Hash: row.Hash, User: row.UserID, ExpiresAt: moment(row.ExpiresAt), UsedAt: moment(row.UsedAt),
	}, nil
}
