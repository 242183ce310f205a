package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// RollbackState makes an older version current again, as a new version: with a serial of its own, so that the tools' next
// save is not refused, and every other byte as it was. A version that OpenTofu encrypted keeps its serial too, since
// OpenTofu refuses one that was changed. Whoever holds a lock or the state stands against it.
func (e *Engine) RollbackState(ctx context.Context, a access.Actor, name string, number int64) (v state.Version, err error) {
	defer func() { e.logRefusal(ctx, a, "rollback", name, "", err) }()
	return e.restore(ctx, a, name, number, restoring{
		source: state.SourceRollback, action: "state.rollback", renumber: true,
		may: func(s state.State, by state.Sender, from state.Version, dead bool) error {
			if err := state.MayChange(s, by, dead); err != nil {
				return err
			}
			if from.Quarantined {
				return fault.New(fault.Conflict, "version_quarantined", "Version %d of %s was refused and never current.", from.Number, name).
					WithHint("Accept it instead, if it is what is true.")
			}
			return nil
		},
	})
}

// AcceptVersion makes a quarantined version current, byte for byte, and ends the hold that waited for it.
func (e *Engine) AcceptVersion(ctx context.Context, a access.Actor, name string, number int64) (v state.Version, err error) {
	defer func() { e.logRefusal(ctx, a, "accept", name, "", err) }()
	return e.restore(ctx, a, name, number, restoring{
		source: state.SourceRecovery, action: "state.accept", release: true,
		may: func(s state.State, by state.Sender, from state.Version, dead bool) error {
			if err := state.MayAccept(s, by, from, dead); err != nil {
				return err
			}
			if !from.Quarantined {
				return fault.New(fault.Conflict, "version_not_quarantined", "Version %d of %s is not a quarantined one.", from.Number, name).
					WithHint("Roll back to it instead.")
			}
			return nil
		},
	})
}

// restoring is what tells a rollback from an acceptance.
type restoring struct {
	source   state.Source
	action   string
	renumber bool // give the document a serial of its own
	release  bool // the version was kept aside: it moves, and the hold of its run ends
	may      func(s state.State, by state.Sender, from state.Version, dead bool) error
}

// restore stores the document of an older version once more, as the newest. It is sealed anew before the transaction,
// which then finds out whether all is still as it was when the serial was chosen.
func (e *Engine) restore(ctx context.Context, a access.Actor, name string, number int64, r restoring) (v state.Version, err error) {
	if err := stateAccess(a, access.StateWrite, name); err != nil {
		return v, err
	}
	if err := e.needKey(); err != nil {
		return v, err
	}
	seen, from, sealed, err := e.restorable(ctx, a, name, number, r)
	if err != nil {
		return v, err
	}
	o, doc, err := e.reseal(ctx, a.Org, seen, sealed, r.renumber)
	if err != nil {
		return v, err
	}
	err = e.changeState(ctx, a, name, false, func(tx Tx, s state.State, by sender) error {
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		if err := r.may(s, by.Sender, from, life.Dead); err != nil {
			return err
		}
		if s.ID != seen.ID || headID(s) != headID(seen) {
			return fault.New(fault.Conflict, "state_changed", "%s was changed meanwhile.", name).WithHint("Look at it again, then decide again.")
		}
		if _, err := versionOf(ctx, tx, s, number); err != nil {
			return err
		}
		if life.Dead {
			s.Lock = nil
		}
		v = newVersion(s, by, o, doc)
		v.Source = r.source
		if r.release {
			s.Hold = nil
			if err := tx.DeleteVersion(ctx, s.ID, number); err != nil {
				return err
			}
		}
		return e.putHead(ctx, tx, a, s, o, v, doc.Inventory, r.action, number)
	})
	if err != nil {
		e.discardObject(ctx, o, err)
	}
	return v, err
}

// headID is the id of the current version; "" where there is none.
func headID(s state.State) string {
	if s.Head == nil {
		return ""
	}
	return s.Head.ID
}

// restorable reads the version, and refuses early what the transaction would refuse after all the work.
func (e *Engine) restorable(ctx context.Context, a access.Actor, name string, number int64, r restoring) (s state.State, from state.Version, o Object, err error) {
	err = e.store.View(ctx, func(tx Tx) error {
		by, err := e.sender(ctx, tx, a)
		if err != nil {
			return err
		}
		s, err = tx.State(ctx, a.Org, name)
		if err = ownState(a, s, name, err); err != nil {
			return err
		}
		if from, err = versionOf(ctx, tx, s, number); err != nil {
			return err
		}
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		if err := r.may(s, by.Sender, from, life.Dead); err != nil {
			return err
		}
		o, err = versionObject(ctx, tx, from)
		return err
	})
	return s, from, o, err
}

// reseal seals the document of o once more. It is read twice: to find the serial, and to copy it.
func (e *Engine) reseal(ctx context.Context, org string, s state.State, o Object, renumber bool) (sealed Object, doc state.Document, err error) {
	scanner := state.NewScanner()
	err = e.eachByte(ctx, o, func(r io.Reader) error {
		_, err := io.Copy(scanner, r)
		return err
	})
	if err != nil {
		return sealed, doc, err
	}
	if doc, err = scanner.Finish(); err != nil {
		return sealed, doc, fmt.Errorf("read the stored document: %w", err)
	}
	at, serial := scanner.SerialAt(), ""
	if renumber && doc.Serial.Known && !doc.Encrypted {
		if serial, err = nextSerial(s, doc.Serial.N); err != nil {
			return sealed, doc, err
		}
	}
	err = e.eachByte(ctx, o, func(r io.Reader) error {
		if serial != "" {
			r = io.MultiReader(io.LimitReader(r, at.At), strings.NewReader(serial), &skipReader{r: r, skip: at.Len})
		}
		sealed, doc, err = e.sealDocument(ctx, org, StateWrite{Size: -1, Body: r})
		return err
	})
	return sealed, doc, err
}

// nextSerial is above the head's, and above the version's own in case the head has none. There is a head: whatever was
// current once has one.
func nextSerial(s state.State, own uint64) (string, error) {
	highest := max(own, s.Head.Serial.N)
	if highest == math.MaxUint64 {
		return "", fault.New(fault.Conflict, "serial_exhausted", "%s has the highest serial there is, so no version can follow it.", s.Name).
			WithHint("Delete the state and import a document with a lower serial.")
	}
	return strconv.FormatUint(highest+1, 10), nil
}

// eachByte gives the document of o to f.
func (e *Engine) eachByte(ctx context.Context, o Object, f func(r io.Reader) error) error {
	body, err := e.openObject(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(f(body), body.Close())
}

// skipReader leaves out the first bytes of r.
type skipReader struct {
	r    io.Reader
	skip int64
}

func (s *skipReader) Read(p []byte) (int, error) {
	if s.skip > 0 {
		if _, err := io.CopyN(io.Discard, s.r, s.skip); err != nil {
			return 0, err
		}
		s.skip = 0
	}
	return s.r.Read(p)
}
