package engine

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/state"
)

// readTries bounds how often a read begins again because the version it was reading was replaced.
const readTries = 3

// StateContent is a stored document on its way out. Body must be closed. It checks what it reads: an error before
// io.EOF means that the bytes so far are not a document.
type StateContent struct {
	Number      int64 // of its version
	Size        int64
	SHA256, MD5 string // hex
	Body        io.ReadCloser
}

// StateWrite is a document on its way in.
type StateWrite struct {
	LockID string // as the client named it; "" for none
	MD5    []byte // of Content-MD5; nil where the client sent none
	Size   int64  // as the client announced it; -1 where it did not
	Body   io.Reader
}

// StateView is a state with the life of its lock's holder.
type StateView struct {
	state.State
	Life            Life      // of the lock's holder; zero without a lock
	RestorableUntil time.Time // of a deleted state; zero of any other, and of one that is being purged
}

// sender is who asks for something of a state, as the rules see it.
type sender struct {
	state.Sender
	attempt run.Attempt // of an attempt
}

// ReadState opens the current document. NotFound (state_empty, state_not_found) means that there is none, never that
// it could not be read.
func (e *Engine) ReadState(ctx context.Context, a access.Actor, name string) (c StateContent, err error) {
	defer func() { e.logRefusal(ctx, a, "read", name, "", err) }()
	if err := stateAccess(a, access.StateRead, name); err != nil {
		return StateContent{}, err
	}
	if err := e.needKey(); err != nil {
		return StateContent{}, err
	}
	return begunAgain(func() (StateContent, error) { return e.readHead(ctx, a, name) })
}

// begunAgain opens what open opens, also where a save under the same lock replaces the version meanwhile.
func begunAgain(open func() (StateContent, error)) (c StateContent, err error) {
	for try := 1; ; try++ {
		c, err = open()
		if fault.Code(err) != "object_missing" || try == readTries {
			return c, err
		}
	}
}

func (e *Engine) readHead(ctx context.Context, a access.Actor, name string) (c StateContent, err error) {
	var h Head
	err = e.store.Look(ctx, func(tx Tx) (err error) {
		h, err = tx.Head(ctx, a.Org, name)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		err = e.store.View(ctx, func(tx Tx) (err error) {
			h, err = findHead(ctx, tx, a, name)
			return err
		})
	} else if err == nil {
		err = ownState(a, state.State{ID: h.State}, name, nil)
	}
	if err != nil {
		return c, err
	}
	return e.openContent(ctx, h.Number, h.Object)
}

// findHead says why there is nothing to read, and reads what has come meanwhile.
func findHead(ctx context.Context, tx Tx, a access.Actor, name string) (h Head, err error) {
	s, err := tx.State(ctx, a.Org, name)
	if err = ownState(a, s, name, err); err != nil {
		return h, err
	}
	if err := state.Present(s); err != nil {
		return h, err
	}
	if s.Head == nil {
		return h, stateEmpty(name)
	}
	h.State, h.Number = s.ID, s.Head.Number
	h.Object, err = versionObject(ctx, tx, *s.Head)
	return h, err
}

func (e *Engine) openContent(ctx context.Context, number int64, o Object) (StateContent, error) {
	body, err := e.openObject(ctx, o)
	return StateContent{Number: number, Size: o.Size, SHA256: o.SHA256, MD5: o.MD5, Body: body}, err
}

// versionObject is the object of a version that exists. That it is missing must never look like an empty state.
func versionObject(ctx context.Context, tx Tx, v state.Version) (Object, error) {
	o, err := tx.Object(ctx, v.ID)
	if fault.Is(err, fault.NotFound) {
		return Object{}, objectMissing(err, Object{ID: v.ID})
	}
	return o, err
}

// WriteState stores a document. The version is the one that now holds these bytes; repeating a write whose answer
// was lost stores nothing twice. TooLarge, Invalid and Unprocessable tell of the document; Locked and Conflict of the
// state. Of those, the write of a lock's holder is kept as a quarantined version, and the error says so.
func (e *Engine) WriteState(ctx context.Context, a access.Actor, name string, w StateWrite) (v state.Version, err error) {
	defer func() { e.logRefusal(ctx, a, "write", name, w.LockID, err) }()
	if err := a.Allow(access.StateWrite); err != nil {
		return v, err
	}
	if err := state.CheckName(name); err != nil {
		return v, err
	}
	o, doc, err := e.sealDocument(ctx, a.Org, w)
	if err != nil {
		return v, err
	}
	v, stored, err := e.storeWrite(ctx, a, name, w.LockID, o, doc)
	switch {
	case err != nil && !stored:
		e.discardObject(ctx, o, err)
	case err == nil && !stored: // the bytes were there already
		e.dropStaged(ctx, o)
	}
	return v, err
}

// sealDocument takes a document in: its size, its form and its transport are checked while it is sealed.
func (e *Engine) sealDocument(ctx context.Context, org string, w StateWrite) (Object, state.Document, error) {
	if w.Size > e.limits.StateMaxBytes {
		return Object{}, state.Document{}, tooLarge(kindState, e.limits.StateMaxBytes)
	}
	scanner := state.NewScanner()
	o, err := e.sealObject(ctx, org, kindState, w.Body, e.limits.StateMaxBytes, scanner)
	if err != nil {
		return Object{}, state.Document{}, err
	}
	doc, err := scanner.Finish()
	if err == nil {
		err = checkMD5(w.MD5, o)
	}
	if err != nil {
		e.discardObject(ctx, o, err)
		return Object{}, state.Document{}, err
	}
	return o, doc, nil
}

func checkMD5(want []byte, o Object) error {
	if want == nil || subtle.ConstantTimeCompare([]byte(hex.EncodeToString(want)), []byte(o.MD5)) == 1 {
		return nil
	}
	return fault.New(fault.Invalid, "md5_mismatch", "The document is not the one that its Content-MD5 is of.").
		WithHint("It was changed or cut on its way; send it again.")
}

// storeWrite is the transaction of a write. stored is whether o was attached, which it is also where a refused write
// was put into quarantine.
func (e *Engine) storeWrite(ctx context.Context, a access.Actor, name, lockID string, o Object, doc state.Document) (v state.Version, stored bool, err error) {
	var refusal error
	err = e.changeState(ctx, a, name, !a.TokenDead, func(tx Tx, s state.State, by sender) error {
		v, stored, refusal = state.Version{}, false, nil
		life, err := e.lockLife(ctx, tx, s)
		if err != nil {
			return err
		}
		w := state.Write{LockID: lockID, Document: doc, SHA256: o.SHA256}
		step, err := state.MayWrite(s, by.Sender, w, life.Dead)
		if a.TokenDead {
			step, err = lastSave(s, by.Sender, step, err)
		}
		if err != nil {
			v, stored, refusal, err = e.refuseWrite(ctx, tx, a, s, by, w, o, step.Keep, err)
			return err
		}
		if step.Same {
			v = *s.Head
			return nil
		}
		if life.Dead {
			s.Lock = nil
		}
		v = newVersion(s, by, o, doc)
		v.Source = state.SourceWrite
		if step.Under {
			v.LockKey, v.LockID = s.Lock.Key, s.Lock.Info.ID
		}
		if step.Replace {
			v.Number = s.Head.Number
		}
		stored = true
		return e.putHead(ctx, tx, a, s, o, v, doc.Inventory, "state.write", 0)
	})
	if err == nil {
		err = refusal
	}
	return v, stored, err
}

// lastSave is what becomes of a write with a token that has ended: bytes that are stored already are fine, those of
// the lock's holder are kept aside, anything else is as if there were no token.
func lastSave(s state.State, by state.Sender, step state.WriteStep, err error) (state.WriteStep, error) {
	kind := fault.From(err).Kind
	if step.Same || err != nil && kind != fault.Conflict && kind != fault.Locked {
		return step, err
	}
	holds := s.Lock != nil && s.Lock.Holder.Same(by.Holder)
	if !holds && (s.Head == nil || !s.Head.By.Same(by.Holder)) {
		return step, tokenEnded()
	}
	return state.WriteStep{Keep: true}, fault.New(fault.Conflict, "token_ended", "The attempt has ended, and its token with it; %s is not changed.", s.Name)
}

func tokenEnded() error {
	return fault.New(fault.Unauthenticated, "token_expired", "The attempt has ended, and its token with it.")
}

func newVersion(s state.State, by sender, o Object, doc state.Document) state.Version {
	return state.Version{
		ID: o.ID, StateID: s.ID, Number: s.Versions + 1, Serial: doc.Serial, Lineage: doc.Lineage, Size: o.Size,
		SHA256: o.SHA256, MD5: o.MD5, Encrypted: doc.Encrypted, Terraform: doc.Terraform, Key: o.Key, CreatedAt: o.CreatedAt, By: by.Holder,
	}
}

// putHead stores v with its object as the state's current version, with the list of its resources and what retention
// and the audit log ask for. from is the number of the version that it was made of, or 0.
func (e *Engine) putHead(ctx context.Context, tx Tx, a access.Actor, s state.State, o Object, v state.Version, list *state.Inventory, action string, from int64) error {
	if err := tx.AttachObject(ctx, o); err != nil {
		return err
	}
	if err := tx.PutVersion(ctx, v); err != nil {
		return err
	}
	added := v.Number > s.Versions
	s.Head, s.Versions, s.UpdatedAt = &v, max(s.Versions, v.Number), e.now()
	if err := tx.UpdateState(ctx, s); err != nil {
		return err
	}
	if err := putList(ctx, tx, s, list); err != nil {
		return err
	}
	if added && s.Versions > int64(e.limits.KeepVersions) {
		// Two at a time, so that a lowered limit is reached without one write paying for all of it.
		if err := tx.DropBeyond(ctx, s.ID, e.limits.KeepVersions, 2); err != nil {
			return fmt.Errorf("drop versions beyond the newest %d: %w", e.limits.KeepVersions, err)
		}
	}
	data := auditVersion(v)
	data.From = from
	return e.record(ctx, tx, a, action, s.Name, data)
}

// versionRecord is what the audit log says of a version.
type versionRecord struct {
	Version int64   `json:"version"`
	Serial  *uint64 `json:"serial"`
	Size    int64   `json:"size"`
	SHA256  string  `json:"sha256"`
	LockID  string  `json:"lock_id,omitempty"`
	Key     string  `json:"key"`
	From    int64   `json:"from,omitempty"` // the version it was made of
}

func auditVersion(v state.Version) versionRecord {
	r := versionRecord{Version: v.Number, Size: v.Size, SHA256: v.SHA256, LockID: v.LockID, Key: v.Key.Kind + ":" + v.Key.Name}
	if v.Serial.Known {
		r.Serial = &v.Serial.N
	}
	return r
}

// changeState runs fn in one transaction that keeps the state from others. create makes it where there is none.
func (e *Engine) changeState(ctx context.Context, a access.Actor, name string, create bool, fn func(tx Tx, s state.State, by sender) error) error {
	var raced bool
	change := func(tx Tx) error {
		raced = false
		by, err := e.sender(ctx, tx, a)
		if err != nil {
			return err
		}
		s, err := tx.StateForUpdate(ctx, a.Org, name)
		if fault.Is(err, fault.NotFound) && create && a.Kind != access.Attempt {
			s = state.State{ID: id.New(id.State, e.now()), Org: a.Org, Name: name, CreatedAt: e.now(), UpdatedAt: e.now()}
			err = tx.CreateState(ctx, s)
			raced = fault.Is(err, fault.Conflict)
		}
		if err = ownState(a, s, name, err); err != nil {
			return err
		}
		return fn(tx, s, by)
	}
	err := e.store.Update(ctx, change)
	if raced { // somebody made the state meanwhile
		err = e.store.Update(ctx, change)
	}
	return err
}

// sender is who the actor is to the rules.
func (e *Engine) sender(ctx context.Context, tx Tx, a access.Actor) (sender, error) {
	by := sender{Sender: state.Sender{Holder: holderOf(a), Read: a.ReadOnly, Manage: a.Allow(access.StateManage) == nil}}
	if a.Kind != access.Attempt {
		return by, nil
	}
	attempt, err := tx.Attempt(ctx, a.ID)
	if err != nil {
		return by, fmt.Errorf("read the attempt %s: %w", a.ID, err)
	}
	by.attempt = attempt
	by.Plan, by.Apply = attempt.TaskKind == run.TaskPlan, attempt.TaskKind == run.TaskApply
	return by, nil
}

func holderOf(a access.Actor) state.Holder {
	h := state.Holder{Kind: string(a.Kind), ID: a.ID, Name: a.Name, Token: a.Token}
	if a.Kind == access.Attempt {
		h.Run, h.Task, h.Attempt = a.Run, a.Task, a.ID
	}
	return h
}

// stateAccess checks what can be checked without the state.
func stateAccess(a access.Actor, p access.Permission, name string) error {
	if err := a.Allow(p); err != nil {
		return err
	}
	if a.TokenDead {
		return tokenEnded()
	}
	return state.CheckName(name)
}

// ownState is the error of reading a state, or the refusal of an attempt that asks for another one than its own: it
// does not learn whether there is one of that name.
func ownState(a access.Actor, s state.State, name string, err error) error {
	if a.Kind == access.Attempt && (err == nil && s.ID != a.State || fault.Is(err, fault.NotFound)) {
		return fault.New(fault.Forbidden, "other_state", "The token of this attempt opens the state of its own component, not %s.", name)
	}
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "state_not_found", "There is no state %s.", name)
	}
	return err
}

// listedState reads a state for people; one that is being purged is no more.
func listedState(ctx context.Context, tx Tx, a access.Actor, name string) (state.State, error) {
	s, err := tx.State(ctx, a.Org, name)
	if err == nil && s.Purged() {
		err = fault.New(fault.NotFound, "state_not_found", "%s was purged.", name)
	}
	return s, ownState(a, s, name, err)
}

// logRefusal logs a refusal: the tools show their users a status code and nothing else.
func (e *Engine) logRefusal(ctx context.Context, a access.Actor, verb, name, lockID string, err error) {
	f := fault.From(err)
	switch {
	case err == nil, f.Kind == fault.Internal, f.Kind == fault.Unavailable, f.Kind == fault.NoSpace:
		return // not a refusal; whoever answers logs it
	case verb == "read" && f.Kind == fault.NotFound:
		return // how the tools find out that a state is empty
	}
	attrs := []slog.Attr{
		slog.String("code", f.Code), slog.String("reason", f.Public), slog.String("state", name), slog.String("lock", lockID),
		slog.String("org", a.Org), slog.String("who", string(a.Kind)+" "+a.ID), slog.String("name", a.Name), slog.String("token", a.Token),
		slog.String("request_id", a.RequestID),
	}
	if a.Kind == access.Attempt {
		attrs = append(attrs, slog.String("run", a.Run), slog.String("task", a.Task))
	}
	if held, ok := f.Detail.(state.LockInfo); ok {
		attrs = append(attrs, slog.String("held_lock", held.ID), slog.String("held_by", held.Info))
	}
	e.log.LogAttrs(ctx, slog.LevelWarn, "state "+verb+" refused", attrs...)
}

// States lists by name, with the life of the locks' holders.
func (e *Engine) States(ctx context.Context, a access.Actor, f StateFilter, p Page) (items []StateView, next string, err error) {
	if err := a.Allow(access.StateList); err != nil {
		return nil, "", err
	}
	f.Org = a.Org
	err = e.store.View(ctx, func(tx Tx) error {
		items, next = nil, ""
		page := p
		for range staleRounds {
			states, n, err := tx.States(ctx, f, page)
			if err != nil {
				return err
			}
			for _, s := range states {
				v, err := e.viewState(ctx, tx, s)
				if err != nil {
					return err
				}
				if !s.Purged() && (!f.Stale || v.Life.Alive != "yes") {
					items = append(items, v)
				}
			}
			next = n
			if page.Cursor, page.Limit = n, p.Limit-len(items); n == "" || page.Limit == 0 {
				return nil
			}
		}
		return nil
	})
	return items, next, err
}

// staleRounds bounds how many pages of locked states one page of stale ones may take; then it is a short page.
const staleRounds = 20

func (e *Engine) viewState(ctx context.Context, tx Tx, s state.State) (StateView, error) {
	life, err := e.lockLife(ctx, tx, s)
	v := StateView{State: s, Life: life}
	if !s.DeletedAt.IsZero() && !s.Purged() {
		v.RestorableUntil = s.DeletedAt.Add(e.limits.DeletedKeep)
	}
	return v, err
}

// State is one state, a deleted one too.
func (e *Engine) State(ctx context.Context, a access.Actor, name string) (v StateView, err error) {
	if err := a.Allow(access.StateList); err != nil {
		return v, err
	}
	if err := state.CheckName(name); err != nil {
		return v, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		s, err := listedState(ctx, tx, a, name)
		if err != nil {
			return err
		}
		v, err = e.viewState(ctx, tx, s)
		return err
	})
	return v, err
}
