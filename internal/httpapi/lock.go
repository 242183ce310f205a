package httpapi

import (
	"crypto/md5" //nolint:gosec // Content-MD5 of the state protocol
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

func (a *API) mountLock() {
	const path = "/api/tf-states/{name}/lock"
	lock := a.backendDoc("lock-state", "Lock a state", "Locked; a repeat with the same id by the same holder is no conflict")
	unlock := a.backendDoc("unlock-state", "Release a state's lock", "Released, or not locked at all")
	lock.RequestBody = a.lockBody("The tool's lock document, at most 16 KiB")
	unlock.RequestBody = a.lockBody("The lock document that names the lock; an empty body releases whatever is held, by force where it is somebody else's")
	for _, method := range []string{http.MethodPost, "LOCK"} {
		a.handle(method, path, access.StateWrite, lock, a.lockState, backend, maxBody(state.MaxLockBytes+1))
	}
	for _, method := range []string{http.MethodDelete, "UNLOCK"} {
		// Who may release every lock need not be allowed to take one.
		a.handle(method, path, access.StateWrite, unlock, a.unlockState, backend, or(access.StateManage), maxBody(state.MaxLockBytes+1))
	}
}

func (a *API) lockState(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	doc, err := lockDocument(r)
	if err != nil {
		return err
	}
	info, err := state.ParseLock(doc)
	if err == nil {
		err = a.engine.LockState(r.Context(), actor, r.PathValue("name"), info)
	}
	return answerLock(w, err)
}

func (a *API) unlockState(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	doc, err := lockDocument(r)
	if err != nil {
		return err
	}
	id, force, err := state.ParseUnlock(doc)
	if err == nil {
		u := engine.UnlockRequest{ID: id, Force: force, Unsaved: r.Header.Get(api.UnsavedHeader) != ""}
		err = a.engine.UnlockState(r.Context(), actor, r.PathValue("name"), u)
	}
	return answerLock(w, err)
}

// lockDocument reads a body that may be one byte longer than a lock document: its parser says what is too long.
func lockDocument(r *http.Request) ([]byte, error) {
	want, err := contentMD5(r)
	if err != nil {
		return nil, err
	}
	doc, err := io.ReadAll(io.LimitReader(r.Body, state.MaxLockBytes+1))
	if err != nil {
		return nil, fmt.Errorf("receive the lock document: %w", err)
	}
	sum := md5.Sum(doc) //nolint:gosec // see the import
	if want != nil && subtle.ConstantTimeCompare(want, sum[:]) != 1 && len(doc) <= state.MaxLockBytes {
		return nil, fault.New(fault.Invalid, "md5_mismatch", "The lock document is not the one that its Content-MD5 is of.")
	}
	return doc, nil
}

// contentMD5 is the request's Content-MD5; nil without one.
func contentMD5(r *http.Request) ([]byte, error) {
	header := r.Header.Get("Content-MD5")
	if header == "" {
		return nil, nil
	}
	sum, err := base64.StdEncoding.DecodeString(header)
	if err != nil || len(sum) != md5.Size {
		return nil, fault.New(fault.Invalid, "invalid_md5", "The header Content-MD5 is not the base64 of 16 bytes.")
	}
	return sum, nil
}

// answerLock answers as the tools expect: 200 alone is success, and a conflict has the holder's lock document for a
// body and nothing else.
func answerLock(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	f := fault.From(err)
	holder, ok := f.Detail.(state.LockInfo)
	if !ok {
		return err
	}
	doc, jsonErr := json.Marshal(holder)
	if jsonErr != nil {
		return fmt.Errorf("encode the lock document: %w", jsonErr)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status(f.Kind))
	_, _ = w.Write(doc) // the client went away
	return nil
}

func (a *API) lockBody(what string) *huma.RequestBody {
	return &huma.RequestBody{Description: what, Content: map[string]*huma.MediaType{"application/json": {Schema: schema[api.LockDocument](a)}}}
}

// backendDoc describes a route of the state protocol.
func (a *API) backendDoc(id, summary, success string) huma.Operation {
	locked := map[string]*huma.MediaType{"application/json": {Schema: schema[api.LockDocument](a)}}
	return huma.Operation{OperationID: id, Tags: []string{"state backend"}, Summary: summary, Responses: map[string]*huma.Response{
		"200": {Description: success},
		"409": {Description: "Another lock is held; the holder's lock document", Content: locked},
		"423": {Description: "Locked by somebody else; the holder's lock document", Content: locked},
	}}
}
