package state

import (
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

// Sender is who asks, as far as the rules care.
type Sender struct {
	Holder
	Apply  bool // an attempt that applies
	Plan   bool // an attempt that plans: it may save the empty first state and nothing else
	Read   bool // an attempt that may only read
	Manage bool // may release what others hold
}

// attempt reports whether the sender is a step of a run.
func (s Sender) attempt() bool { return s.Kind == HolderAttempt }

// The kinds of holder.
const (
	HolderUser    = "user"
	HolderAttempt = "attempt"
	HolderSystem  = "system"
)

// LockStep is what a lock request that is not refused comes to.
type LockStep int

// The steps of a lock request.
const (
	LockTake LockStep = iota // the state gets this lock
	LockHave                 // the sender has it already: its first answer was lost
)

// MayLock says what becomes of by's request for a lock with this id. dead says that the holder of the present lock
// can do nothing any more; its lock is taken over.
func MayLock(s State, by Sender, id string, dead bool) (LockStep, error) {
	if err := mayTouch(s, by); err != nil {
		return 0, err
	}
	if s.Lock != nil && s.Lock.Holder.Same(by.Holder) && s.Lock.Info.ID == id {
		return LockHave, nil
	}
	if err := free(s, by, dead); err != nil {
		return 0, err
	}
	return LockTake, nil
}

// Write is a document that somebody wants to store.
type Write struct {
	LockID   string // as the sender named it; "" where it named none
	Document Document
	SHA256   string
}

// WriteStep is what a write that is not refused comes to, or, with a refusal, whether its bytes are kept.
type WriteStep struct {
	Same    bool // these bytes are the head already: nothing is stored
	Replace bool // the head was written under the same lock, which is still held: it is replaced
	Under   bool // written under the state's lock; without it, the version is one of its own
	Keep    bool // with a refusal: the sender holds the lock, so the bytes are kept as a quarantined version
}

// MayWrite says what becomes of by's write. dead is as with MayLock.
func MayWrite(s State, by Sender, w Write, dead bool) (WriteStep, error) {
	if err := mayTouch(s, by); err != nil {
		return WriteStep{}, err
	}
	head := s.Head
	if head != nil && w.LockID != "" && head.LockID == w.LockID && head.By.Same(by.Holder) && head.SHA256 == w.SHA256 {
		return WriteStep{Same: true}, nil
	}
	own := s.Lock != nil && s.Lock.Holder.Same(by.Holder)
	under, err := mayWriteNow(s, by, w.LockID, dead)
	if err != nil {
		return WriteStep{Keep: own && s.Lock.Info.ID == w.LockID}, err
	}
	if head != nil && head.SHA256 == w.SHA256 {
		return WriteStep{Same: true}, nil
	}
	if by.Plan && (head != nil || w.Document.Resources) {
		return WriteStep{}, fault.New(fault.Forbidden, "plan_may_not_write", "A plan may save only the empty first state, and %s is not that.", s.Name)
	}
	holds := own && !dead
	sameLock := holds && head != nil && head.LockKey == s.Lock.Key
	if head != nil {
		if err := follows(s.Name, *head, w.Document, sameLock); err != nil {
			return WriteStep{Keep: holds}, err
		}
	}
	return WriteStep{Under: under, Replace: under && sameLock}, nil
}

// mayWriteNow checks lock and hold; under is whether the write belongs to the lock.
func mayWriteNow(s State, by Sender, id string, dead bool) (under bool, err error) {
	lock := s.Lock
	if lock != nil && !dead {
		switch {
		case !lock.Holder.Same(by.Holder):
			return false, locked(s)
		case id == lock.Info.ID:
			return true, nil
		case id == "" && by.attempt():
			return false, nil
		case id == "":
			return false, locked(s).WithHint("Send the lock's id with the write (?ID=), or release the lock first.")
		}
		return false, locked(s)
	}
	if err := held(s, by); err != nil {
		return false, err
	}
	if id != "" {
		return false, fault.New(fault.Conflict, "lock_lost", "The write names the lock %q, which is not held any more: it was released or forced.", id).
			WithHint("Lock again and plan again: somebody may have changed the state meanwhile.")
	}
	return false, nil
}

// follows checks that d may come after head. sameLock is whether its sender holds the lock that head was written under:
// the tools send other bytes with the same serial then.
func follows(name string, head Version, d Document, sameLock bool) error {
	if head.Lineage != "" && d.Lineage != "" && head.Lineage != d.Lineage {
		return fault.New(fault.Conflict, "other_lineage", "The document's lineage %s is not that of %s, which is %s: they are states of different configurations.", d.Lineage, name, head.Lineage).
			WithHint("Check the name in the backend's address. To replace the state, delete it first.")
	}
	if !head.Serial.Known || !d.Serial.Known || d.Serial.N > head.Serial.N {
		return nil
	}
	if d.Serial.N < head.Serial.N {
		return fault.New(fault.Conflict, "serial_too_low", "The document's serial %d is lower than %d, the serial of %s now: it is out of date.", d.Serial.N, head.Serial.N, name).
			WithHint("Plan again on the current state. To go back to an older version, roll back.")
	}
	if !sameLock {
		return fault.New(fault.Conflict, "serial_taken", "%s has the serial %d already, with other bytes.", name, d.Serial.N).
			WithHint("Plan again on the current state; a document that is pushed needs a higher serial.")
	}
	return nil
}

// Unlock is a request to release a lock.
type Unlock struct {
	ID      string // "": whatever is held, and a hold
	Force   bool   // asked for as a force unlock: it counts as one for one's own lock too
	Dead    bool   // the holder of the present lock can do nothing any more
	Unsaved bool   // a save under the lock was refused or not delivered: the hold stays
}

// UnlockStep is what an unlock that is not refused comes to.
type UnlockStep struct {
	Release bool // the lock is released
	EndHold bool // the hold is ended
	Forced  bool // it was somebody else's, or was asked for as a force unlock: to be audited
}

// MayUnlock says what becomes of by's request. Releasing what is released already is no error; a late unlock never
// frees a newer lock. A force unlock of one's own lock needs no permission, and is forced all the same: whatever took the
// lock may be at work still, and what it saves later must be kept. A step of a run never forces.
func MayUnlock(s State, by Sender, u Unlock) (UnlockStep, error) {
	if err := mayTouch(s, by); err != nil {
		return UnlockStep{}, err
	}
	switch {
	case u.ID == "":
		return unlockAny(s, by, u)
	case s.Hold != nil && u.ID == s.Hold.ID():
		if err := mayForce(s, by); err != nil {
			return UnlockStep{}, err
		}
		return UnlockStep{EndHold: true, Forced: true}, nil
	case s.Lock == nil:
		return UnlockStep{}, nil
	case u.ID != s.Lock.Info.ID:
		return UnlockStep{}, fault.New(fault.Conflict, "other_lock", "The lock %q is not held; %s is locked by another, %q.", u.ID, s.Name, s.Lock.Info.ID).
			WithDetail(Conflict(s))
	case s.Lock.Holder.Same(by.Holder):
		ended := by.Apply && s.Hold != nil && s.Hold.Run == by.Run && !u.Unsaved
		return UnlockStep{Release: true, EndHold: ended, Forced: u.Force && !by.attempt()}, nil
	case u.Dead:
		return UnlockStep{Release: true, Forced: u.Force && !by.attempt()}, nil
	}
	if err := mayForce(s, by); err != nil {
		return UnlockStep{}, err
	}
	return UnlockStep{Release: true, Forced: true}, nil
}

// unlockAny releases whatever is held.
func unlockAny(s State, by Sender, u Unlock) (UnlockStep, error) {
	if by.attempt() {
		return UnlockStep{}, mayForce(s, by)
	}
	step := UnlockStep{Release: s.Lock != nil, EndHold: s.Hold != nil}
	own := s.Lock == nil || s.Lock.Holder.Same(by.Holder) || u.Dead
	if own && s.Hold == nil {
		step.Forced = u.Force && step.Release
		return step, nil
	}
	step.Forced = true
	return step, mayForce(s, by)
}

// MayChange says whether by may change the state otherwise than by a write of a tool: roll back, accept, import,
// delete. Whoever it is, a lock or hold stands against it.
func MayChange(s State, by Sender, dead bool) error {
	if err := mayTouch(s, by); err != nil {
		return err
	}
	if s.Lock != nil && !dead {
		return locked(s)
	}
	return held(s, by)
}

// MayAccept says whether by may make kept, a quarantined version, current. Of all holds, that of the run whose save it is
// does not stand against it: the hold waits for just this.
func MayAccept(s State, by Sender, kept Version, dead bool) error {
	if s.Hold != nil && kept.By.Run == s.Hold.Run {
		s.Hold = nil
	}
	return MayChange(s, by, dead)
}

// mayTouch refuses what no lock or hold has to do with.
func mayTouch(s State, by Sender) error {
	if err := Present(s); err != nil {
		return err
	}
	if by.Read {
		return fault.New(fault.Forbidden, "read_only", "This attempt may read %s and not lock or write it.", s.Name)
	}
	return nil
}

// Present refuses a deleted state.
func Present(s State) error {
	switch {
	case s.DeletedAt.IsZero():
		return nil
	case s.Purged():
		return fault.New(fault.Gone, "state_purged", "%s was deleted for good.", s.Name).WithHint("Its name is free again once its bytes are deleted, in a moment.")
	}
	return fault.New(fault.Gone, "state_deleted", "%s was deleted at %s.", s.Name, stamp(s.DeletedAt)).
		WithHint("An administrator can restore it, or purge it to free the name.")
}

// free refuses while somebody else holds a lock or a hold.
func free(s State, by Sender, dead bool) error {
	if s.Lock != nil && !dead {
		return locked(s)
	}
	return held(s, by)
}

func held(s State, by Sender) error {
	if s.Hold == nil || by.attempt() && by.Run == s.Hold.Run {
		return nil
	}
	return locked(State{Name: s.Name, Hold: s.Hold})
}

func mayForce(s State, by Sender) error {
	switch {
	case by.attempt():
		return fault.New(fault.Forbidden, "attempt_may_not_force", "A step of a run never releases by force; %s is not this step's to release.", s.Name)
	case !by.Manage:
		return fault.New(fault.Forbidden, "force_needs_manage", "Releasing somebody else's lock or hold of %s needs the permission tf_state:manage.", s.Name).
			WithHint("Ask an administrator of the organization, or the holder.")
	}
	return nil
}

// locked is the refusal for a state that somebody else has.
func locked(s State) *fault.Error {
	doc := Conflict(s)
	return fault.New(fault.Locked, "state_locked", "%s is locked: %s.", s.Name, doc.Info).WithDetail(doc).
		WithHint("Wait for it. holdfast state show %s says whether the holder of %s still lives, and how to release it.", s.Name, doc.ID)
}

// Conflict is the lock document that is answered to whoever is in conflict with the state's lock, or with its hold
// where there is no lock. Its Info says who and since when, where the holder's tool has not said anything.
func Conflict(s State) LockInfo {
	if s.Lock == nil {
		since := stamp(s.Hold.Since)
		return LockInfo{
			ID: s.Hold.ID(), Operation: "hold", Who: s.Hold.Run, Created: since,
			Info: "held for run " + s.Hold.Run + " until it has applied, since " + since,
		}
	}
	doc := s.Lock.Info
	if doc.Info == "" {
		doc.Info = "held by " + s.Lock.Holder.describe() + " since " + stamp(s.Lock.TakenAt)
	}
	return doc
}

func (h Holder) describe() string {
	if h.Kind == HolderAttempt {
		return "run " + h.Run + ", attempt " + h.ID + " (" + h.Name + ")"
	}
	return h.Kind + " " + h.Name
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
