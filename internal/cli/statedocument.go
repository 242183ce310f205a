package cli

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol's own check against damage on the way; SHA-256 stands beside it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// document is a state document on this side, and what it says of itself.
type document struct {
	send   client.Document
	says   state.Document
	sha256 string // hex
}

// fileDocument reads a file once through and checks that it is a state document. None of it stays in memory; that the
// same bytes are sent later is what the MD5 is for.
func fileDocument(path string) (document, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return document{}, unreadable(path, err)
	}
	d, err := readDocument(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return document{}, unreadable(path, err)
	}
	return d, nil
}

// unreadable is err with the name of the file that it is about in its public text.
func unreadable(path string, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fault.Wrap(err, fault.Invalid, codeUsage, "The file %s cannot be read: %v.", path, err)
	}
	out := fault.Wrap(err, f.Kind, f.Code, "%s: %s", path, f.Public)
	out.Hint = f.Hint
	return out
}

// bytesDocument is a document that is in no file.
func bytesDocument(b []byte) (document, error) {
	return readDocument(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
}

func readDocument(open func() (io.ReadCloser, error)) (document, error) {
	r, err := open()
	if err != nil {
		return document{}, err
	}
	defer func() { _ = r.Close() }()                                    // it was only read
	light, full, scanner := md5.New(), sha256.New(), state.NewScanner() //nolint:gosec // see the import
	n, err := io.Copy(io.MultiWriter(light, full, scanner), r)
	if err != nil {
		return document{}, err
	}
	says, err := scanner.Finish()
	if err != nil {
		return document{}, err
	}
	return document{
		send: client.Document{Open: open, Size: n, MD5: light.Sum(nil)}, says: says, sha256: hex.EncodeToString(full.Sum(nil)),
	}, nil
}

func (d document) serial() *uint64 {
	if !d.says.Serial.Known {
		return nil
	}
	return &d.says.Serial.N
}

// asRules is a state as the server's own rules take it, as far as a client knows it: whoever holds a lock or the state
// is somebody else. gone is whether the lock's holder can do nothing any more.
func asRules(st api.State) (s state.State, gone bool) {
	s = state.State{Name: st.Name}
	if st.DeletedAt != nil {
		s.DeletedAt = *st.DeletedAt
	}
	if st.Version > 0 {
		s.Head = &state.Version{Number: st.Version, Lineage: st.Lineage, SHA256: st.SHA256}
		if st.Serial != nil {
			s.Head.Serial = state.Serial{Known: true, N: *st.Serial}
		}
	}
	if l := st.Lock; l != nil {
		s.Lock = &state.Lock{
			Info:    state.LockInfo{ID: l.ID, Operation: l.Operation, Info: l.Info, Who: l.Who, Version: l.Version, Created: l.Created, Path: l.Path},
			Holder:  state.Holder{Kind: l.Holder.Kind, ID: l.Holder.ID, Name: l.Holder.Name, Run: l.Holder.Run},
			TakenAt: l.TakenAt,
		}
		gone = l.Holder.Alive == "no"
	}
	if h := st.Hold; h != nil {
		s.Hold = &state.Hold{Run: h.Run, Since: h.Since}
	}
	return s, gone
}
