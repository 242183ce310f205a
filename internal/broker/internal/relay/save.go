package relay

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the protocol's checksum, against damage and not against people
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
)

// post takes a save: onto the own disk first, then to the server until it has answered. The spool file stays while the
// server has not said that it has the save: should this process die, its next life delivers it.
func (r *Relay) post(w http.ResponseWriter, q *http.Request) {
	r.saving.Lock()
	defer r.saving.Unlock()
	s, done, err := r.spool(http.MaxBytesReader(w, q.Body, r.o.MaxBytes))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			r.o.Say(fmt.Sprintf("holdfast: the state was not saved: it has more than %d bytes", r.o.MaxBytes))
			refuse(w, http.StatusRequestEntityTooLarge, "the state is too large")
			return
		}
		r.o.Log.Error("a state could not be kept for delivery", "error", err)
		if why, ok := errors.AsType[syscall.Errno](err); ok {
			r.o.Say("holdfast: the state was not saved: the agent's disk does not take it: " + why.Error())
		}
		refuse(w, http.StatusServiceUnavailable, "the state could not be kept for delivery")
		return
	}
	defer done()
	if sum := q.Header.Get("Content-MD5"); sum != "" && sum != s.md5 {
		r.drop()
		refuse(w, http.StatusBadRequest, "the state was damaged on its way")
		return
	}
	if r.o.Access == Plan && !r.emptyFirst(s) {
		r.drop()
		r.o.Say("holdfast: the state was not saved: a plan changes no state")
		refuse(w, http.StatusForbidden, "a plan changes no state")
		return
	}
	// Not under the request's context: a save goes on when who sent it has died.
	resp, err := r.until(r.life, "save the state", func(ctx context.Context) (*http.Response, error) {
		return r.o.Platform.State(ctx, s.request(r.request(http.MethodPost, r.o.State.Address, q.URL.RawQuery)))
	})
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the server does not answer")
		return
	}
	if resp.StatusCode <= 299 {
		r.drop()
	}
	r.answer(w, resp, "to save the state")
}

// drop forgets the spooled save: the server has it, or it is not to be delivered.
func (r *Relay) drop() { _ = os.Remove(r.o.SpoolFile) }

// save is a spooled document.
type save struct {
	file io.ReaderAt
	size int64
	md5  string
}

func (s *save) request(q platform.StateRequest) platform.StateRequest {
	q.Body, q.Size, q.ContentMD5 = io.NewSectionReader(s.file, 0, s.size), s.size, s.md5
	return q
}

// spool writes a document to the disk, for good.
func (r *Relay) spool(body io.Reader) (_ *save, done func(), err error) {
	next := r.o.SpoolFile + ".new"
	f, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("spool a state: %w", err)
	}
	h := md5.New() //nolint:gosec // see above
	n, err := io.Copy(io.MultiWriter(f, h), body)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(next, r.o.SpoolFile)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(next)
		return nil, nil, fmt.Errorf("spool a state: %w", err)
	}
	return &save{f, n, base64.StdEncoding.EncodeToString(h.Sum(nil))}, func() { _ = f.Close() }, nil
}

// emptyFirst reports whether the document is the empty one that a plan over no state may save.
func (r *Relay) emptyFirst(s *save) bool {
	r.mu.Lock()
	fresh := r.hasRead && r.served == ""
	r.mu.Unlock()
	if !fresh || s.size > maxLockBytes {
		return false
	}
	text, err := io.ReadAll(io.NewSectionReader(s.file, 0, s.size))
	if err != nil {
		return false
	}
	var doc struct {
		Version   int                        `json:"version"`
		Serial    uint64                     `json:"serial"`
		Resources []json.RawMessage          `json:"resources"`
		Outputs   map[string]json.RawMessage `json:"outputs"`
	}
	return json.Unmarshal(text, &doc) == nil && doc.Version == 4 && doc.Serial <= 1 && len(doc.Resources) == 0 && len(doc.Outputs) == 0
}

// Deliver saves a document that the tool could not save, under the attempt alone: its lock may be gone. It repeats
// until the server has answered or ctx is done; an answer that is no success is a *platform.Error.
func (r *Relay) Deliver(ctx context.Context, file io.ReaderAt, size int64) error {
	h := md5.New() //nolint:gosec // see above
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, size)); err != nil {
		return fmt.Errorf("read the unsaved state: %w", err)
	}
	s := &save{file, size, base64.StdEncoding.EncodeToString(h.Sum(nil))}
	return r.o.Platform.Until(ctx, "deliver an unsaved state", func(ctx context.Context) error {
		resp, err := r.o.Platform.State(ctx, s.request(r.request(http.MethodPost, r.o.State.Address, "")))
		if err != nil {
			return err
		}
		return platform.Check(resp)
	})
}

func withBody(q platform.StateRequest, body []byte) platform.StateRequest {
	sum := md5.Sum(body) //nolint:gosec // see above
	q.Body, q.Size, q.ContentMD5 = bytes.NewReader(body), int64(len(body)), base64.StdEncoding.EncodeToString(sum[:])
	return q
}

// reason is what a refusal says, for a log.
func reason(body []byte) string {
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return strings.TrimSpace(p.Detail + " " + p.Hint)
	}
	var l struct{ ID, Who, Operation, Created string }
	if json.Unmarshal(body, &l) == nil && l.ID != "" {
		return fmt.Sprintf("it is locked by %s, for %s since %s (lock %s)", l.Who, l.Operation, l.Created, l.ID)
	}
	const most = 300
	return strings.ToValidUTF8(string(body[:min(len(body), most)]), "")
}
