package engine

import (
	"context"
	"io"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// examinations is how many documents are compared or looked into at a time by one server: each holds up to some
// 30 MiB, and half a processor for a second per 100 MiB.
const examinations = 4

// StateDiff is what differs between two versions of a state.
type StateDiff struct {
	From, To       state.Version // From is zero for nothing
	LineageChanged bool
	Unreadable     string // ClientEncrypted, or "" where they can be compared
	state.Diff
}

// DiffState compares two versions of a state, quarantined ones too. to is 0 for the current one, from for the one
// before it that was current; where there is none, everything is added. It is audited as what it is: a read of
// documents, without what they mark as sensitive.
func (e *Engine) DiffState(ctx context.Context, a access.Actor, name string, from, to int64) (d StateDiff, err error) {
	defer func() { e.logRefusal(ctx, a, "diff", name, "", err) }()
	if err := stateAccess(a, access.StateRead, name); err != nil {
		return d, err
	}
	err = e.examine(ctx, func() error {
		var before, after Object
		err := e.store.Update(ctx, func(tx Tx) (err error) {
			d = StateDiff{}
			if d, before, after, err = e.diffSides(ctx, tx, a, name, from, to); err != nil {
				return err
			}
			return e.record(ctx, tx, a, "state.diff", name, diffRecord{d.From.Number, d.To.Number})
		})
		if err != nil || d.Unreadable != "" {
			return err
		}
		var open state.Opener
		if before.ID != "" {
			open = e.opener(ctx, before)
		}
		found, err := state.Compare(open, e.opener(ctx, after))
		if err == nil {
			d.Diff = *found
		}
		return err
	})
	return d, err
}

// diffRecord is what the audit log says of a diff.
type diffRecord struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func (e *Engine) diffSides(ctx context.Context, tx Tx, a access.Actor, name string, from, to int64) (d StateDiff, before, after Object, err error) {
	s, err := tx.State(ctx, a.Org, name)
	if err = ownState(a, s, name, err); err != nil {
		return d, before, after, err
	}
	if err := state.Present(s); err != nil {
		return d, before, after, err
	}
	if to == 0 {
		if s.Head == nil {
			return d, before, after, stateEmpty(name)
		}
		to = s.Head.Number
	}
	if d.To, err = versionOf(ctx, tx, s, to); err != nil {
		return d, before, after, err
	}
	if after, err = versionObject(ctx, tx, d.To); err != nil {
		return d, before, after, err
	}
	if from == 0 {
		if from, err = tx.VersionBefore(ctx, s.ID, to); err != nil {
			return d, before, after, err
		}
	}
	if from != 0 {
		if d.From, err = versionOf(ctx, tx, s, from); err != nil {
			return d, before, after, err
		}
		if before, err = versionObject(ctx, tx, d.From); err != nil {
			return d, before, after, err
		}
		d.LineageChanged = d.From.Lineage != d.To.Lineage
	}
	if d.From.Encrypted || d.To.Encrypted {
		d.Unreadable = ClientEncrypted
	}
	return d, before, after, nil
}

func stateEmpty(name string) error {
	return fault.New(fault.NotFound, "state_empty", "Nothing is stored in %s yet.", name)
}

// StateOutputs is the outputs of a state's current document, without what is sensitive.
type StateOutputs struct {
	Version    int64
	Unreadable string // ClientEncrypted, or "" where it can be read
	Outputs    []state.Output
	More       int
}

// StateOutputs reads the outputs of the current document.
func (e *Engine) StateOutputs(ctx context.Context, a access.Actor, name string) (out StateOutputs, err error) {
	err = e.examineHead(ctx, a, name, "state.outputs", struct{}{}, func(v state.Version, open state.Opener) (err error) {
		out = StateOutputs{Version: v.Number}
		if v.Encrypted {
			out.Unreadable = ClientEncrypted
			return nil
		}
		out.Outputs, out.More, err = state.Outputs(open)
		return err
	})
	return out, err
}

// ResourceDetail is one resource of a state's current document with its values, but for those that are sensitive.
type ResourceDetail struct {
	state.Resource
	Version    int64
	Unreadable string // ClientEncrypted, or "" where it can be read
	Details    []state.Instance
	More       int // instances beyond those in Details
}

// StateResource reads one resource of the current document, by its address without the index of an instance.
func (e *Engine) StateResource(ctx context.Context, a access.Actor, name, address string) (d ResourceDetail, err error) {
	about := struct {
		Address string `json:"address"`
	}{address}
	err = e.examineHead(ctx, a, name, "state.resource", about, func(v state.Version, open state.Opener) (err error) {
		d = ResourceDetail{Version: v.Number}
		if v.Encrypted {
			d.Unreadable = ClientEncrypted
			return nil
		}
		d.Resource, d.Details, d.More, err = state.Instances(open, address)
		if err == nil && d.Name == "" {
			return fault.New(fault.NotFound, "resource_not_found", "The current version of %s has no instance of %s.", name, address).
				WithHint("The address is the resource's, without an index; holdfast state resources %s lists them.", name)
		}
		return err
	})
	return d, err
}

// examineHead gives the state's current document to read, once that is in the audit log.
func (e *Engine) examineHead(ctx context.Context, a access.Actor, name, action string, data any, read func(v state.Version, open state.Opener) error) (err error) {
	defer func() { e.logRefusal(ctx, a, "read", name, "", err) }()
	if err := stateAccess(a, access.StateRead, name); err != nil {
		return err
	}
	return e.examine(ctx, func() error {
		var v state.Version
		var o Object
		err := e.store.Update(ctx, func(tx Tx) error {
			s, err := tx.State(ctx, a.Org, name)
			if err = ownState(a, s, name, err); err != nil {
				return err
			}
			if err := state.Present(s); err != nil {
				return err
			}
			if s.Head == nil {
				return stateEmpty(name)
			}
			v = *s.Head
			if o, err = versionObject(ctx, tx, v); err != nil {
				return err
			}
			return e.record(ctx, tx, a, action, name, data)
		})
		if err != nil {
			return err
		}
		return read(v, e.opener(ctx, o))
	})
}

// examine runs fn while few others do, and again where a save replaced the document that was being read.
func (e *Engine) examine(ctx context.Context, fn func() error) error {
	select {
	case e.examining <- struct{}{}:
		defer func() { <-e.examining }()
	case <-ctx.Done():
		return fault.Wrap(context.Cause(ctx), fault.Unavailable, "interrupted", "The request ended while others were looking into states.").
			WithHint("Try again in a moment.")
	}
	for try := 1; ; try++ {
		if err := fn(); fault.Code(err) != "object_missing" || try == readTries {
			return err
		}
	}
}

// opener opens a document as often as it is asked to, until ctx ends.
func (e *Engine) opener(ctx context.Context, o Object) state.Opener {
	return func() (io.ReadCloser, error) {
		body, err := e.openObject(ctx, o)
		if err != nil {
			return nil, err
		}
		return &untilDone{ReadCloser: body, ctx: ctx}, nil
	}
}

// untilDone stops reading when its context ends: what is in memory or compressed well would be read to the end.
type untilDone struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // an io.Reader for the length of one examination
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, fault.Wrap(context.Cause(u.ctx), fault.Unavailable, "interrupted", "The request ended before the document was read.")
	}
	return u.ReadCloser.Read(p)
}
