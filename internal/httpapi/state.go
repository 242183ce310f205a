package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzhttp"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/state"
)

// stateBodyBytes is more than any limit on states: the engine's own, which it logs, is the one that refuses.
const stateBodyBytes = 1 << 40

// copyBytes is how much of a document is in memory on its way out.
const copyBytes = 32 << 10

// StateName names the state in a path; inputs embed it. It is exported because huma passes over embedded types that are
// not.
type StateName struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the state."`
}

type statesInput struct {
	Paging
	Query   string `query:"q" maxLength:"128" doc:"A part of the name."`
	Locked  bool   `query:"locked" doc:"Only states that are locked."`
	Held    bool   `query:"held" doc:"Only states that a run holds until its apply."`
	Deleted bool   `query:"deleted" doc:"The deleted states instead of the others."`

	Stale     bool `query:"stale" doc:"Only states whose lock's holder is gone, or not known to live. A page may be short and have a next one."`
	Encrypted bool `query:"client_encrypted" doc:"Only states whose current document the client encrypted."`
}

// mountState mounts the state protocol and what people ask of states.
func (a *API) mountState() {
	a.mountLock()
	a.mountVersion()
	a.mountStateManagement()
	const path = "/api/tf-states/{name}/state"
	document := map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Description: "A state document, byte for byte as it was sent."}}}
	read := a.backendDoc("read-state", "Read the current document of a state", "The document")
	read.Responses["200"].Content = document
	read.Responses["404"] = &huma.Response{Description: "Nothing is stored yet"}
	write := a.backendDoc("write-state", "Store a document of a state", "Stored, or stored already")
	write.Parameters = []*huma.Param{{Name: "ID", In: "query", Description: "Id of the lock it is written under.", Schema: &huma.Schema{Type: huma.TypeString}}}
	write.RequestBody = &huma.RequestBody{Required: true, Content: document}
	a.handle(http.MethodGet, path, access.StateRead, read, a.readState, backend)
	a.handle(http.MethodPost, path, access.StateWrite, write, a.writeState, backend, maxBody(stateBodyBytes))

	route(a, huma.Operation{OperationID: "list-states", Method: http.MethodGet, Path: "/api/tf-states", Tags: []string{"state"}, Summary: "List states by name"},
		access.StateList, func(ctx context.Context, actor access.Actor, in *statesInput) (*list[api.State], error) {
			f := engine.StateFilter{Query: in.Query, Locked: in.Locked, Held: in.Held, Deleted: in.Deleted, Stale: in.Stale, Encrypted: in.Encrypted}
			rows, next, err := a.engine.States(ctx, actor, f, in.page())
			return listOf(rows, next, err, showState)
		})
	route(a, huma.Operation{OperationID: "get-state", Method: http.MethodGet, Path: "/api/tf-states/{name}", Tags: []string{"state"}, Summary: "One state, with its lock and hold"},
		access.StateList, func(ctx context.Context, actor access.Actor, in *StateName) (*one[api.State], error) {
			v, err := a.engine.State(ctx, actor, in.Name)
			return oneOf(showState(v), err)
		})
}

// mountStateManagement mounts what only an administrator may do.
func (a *API) mountStateManagement() {
	const path = "/api/tf-states/{name}"
	tags := []string{"state"}
	route(a, huma.Operation{
		OperationID: "force-unlock-state", Method: http.MethodPost, Path: path + "/force-unlock", Tags: tags,
		Summary: "Release the lock or end the hold that is named; without a name, whatever is held",
	},
		access.StateManage, func(ctx context.Context, actor access.Actor, in *forceUnlockInput) (*one[api.State], error) {
			var u engine.UnlockRequest
			if in.Body != nil {
				u.ID, u.Reason = in.Body.ID, in.Body.Reason
			}
			v, err := a.engine.ForceUnlock(ctx, actor, in.Name, u)
			return oneOf(showState(v), err)
		})
	route(a, huma.Operation{
		OperationID: "delete-state", Method: http.MethodDelete, Path: path, Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Delete a state that is not locked or held; it can be restored for a time",
	},
		access.StateManage, func(ctx context.Context, actor access.Actor, in *deleteStateInput) (*struct{}, error) {
			return nil, a.engine.DeleteState(ctx, actor, in.Name, in.Purge)
		})
	route(a, huma.Operation{OperationID: "restore-state", Method: http.MethodPost, Path: path + "/restore", Tags: tags, Summary: "Bring a deleted state back as it was"},
		access.StateManage, func(ctx context.Context, actor access.Actor, in *StateName) (*one[api.State], error) {
			v, err := a.engine.RestoreState(ctx, actor, in.Name)
			return oneOf(showState(v), err)
		})
}

type forceUnlockInput struct {
	StateName
	Body *api.ForceUnlock `required:"false"`
}

type deleteStateInput struct {
	StateName
	Purge bool `query:"purge" doc:"Delete its bytes and keys at once, those of a deleted state too; nothing brings them back."`
}

func (a *API) readState(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	c, err := a.engine.ReadState(r.Context(), actor, r.PathValue("name"))
	if err != nil {
		return err
	}
	return a.sendDocument(w, c)
}

// sendDocument streams a document. Its first bytes are read before anything is answered, so that a document that
// cannot be opened is an error and no answer that was cut.
func (a *API) sendDocument(w http.ResponseWriter, c engine.StateContent) (err error) {
	defer func() { err = errors.Join(err, c.Body.Close()) }()
	sum, err := hex.DecodeString(c.MD5)
	if err != nil {
		return fmt.Errorf("the stored MD5 of version %d: %w", c.Number, err)
	}
	kept := a.copying.Get().(*[copyBytes]byte)
	defer a.copying.Put(kept)
	buf := kept[:min(copyBytes, c.Size+1)]
	n, err := io.ReadFull(c.Body, buf)
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !whole {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.FormatInt(c.Size, 10))
	h.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum))
	h.Set("ETag", `"`+c.SHA256+`"`)
	h.Set(gzhttp.HeaderNoCompression, "1") // the length and sum are of these very bytes
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(buf[:n]); err != nil || whole {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, c.Body, buf)
	return err
}

func (a *API) writeState(w http.ResponseWriter, r *http.Request, actor access.Actor) error {
	sum, err := contentMD5(r)
	if err != nil {
		return err
	}
	_, err = a.engine.WriteState(r.Context(), actor, r.PathValue("name"),
		engine.StateWrite{LockID: r.URL.Query().Get("ID"), MD5: sum, Size: r.ContentLength, Body: r.Body})
	return answerLock(w, err)
}

func showState(v engine.StateView) api.State {
	s := api.State{Name: v.Name, CreatedAt: v.CreatedAt.UTC(), UpdatedAt: v.UpdatedAt.UTC(), DeletedAt: api.Time(v.DeletedAt), RestorableUntil: api.Time(v.RestorableUntil)}
	if h := v.Head; h != nil {
		s.Version, s.Serial, s.Lineage, s.Size, s.SHA256, s.ClientEncrypted = h.Number, serialOf(h.Serial), h.Lineage, h.Size, h.SHA256, h.Encrypted
		by := showHolder(h.By, engine.Life{Alive: "unknown"})
		s.UpdatedBy = &by
	}
	if l := v.Lock; l != nil {
		i := state.Conflict(v.State)
		s.Lock = &api.Lock{
			ID: i.ID, Operation: i.Operation, Info: i.Info, Who: i.Who, Version: i.Version, Created: i.Created, Path: i.Path,
			TakenAt: l.TakenAt.UTC(), Holder: showHolder(l.Holder, v.Life), Unlock: unlockCommand(v.Name, i.ID),
		}
	}
	if h := v.Hold; h != nil {
		s.Hold = &api.Hold{ID: h.ID(), Run: h.Run, Since: h.Since.UTC()}
	}
	return s
}

func serialOf(s state.Serial) *uint64 {
	if !s.Known {
		return nil
	}
	return &s.N
}

func showHolder(h state.Holder, l engine.Life) api.Holder {
	return api.Holder{
		Kind: h.Kind, ID: h.ID, Name: h.Name, Run: h.Run, Task: h.Task, Attempt: h.Attempt, Alive: l.Alive, Evidence: l.Evidence,
		LastSeen: api.Time(l.LastSeen),
	}
}

// unlockCommand is what releases a lock by force, from any folder. It names the lock, so that it never frees a newer one.
func unlockCommand(name, lockID string) string {
	between := " "
	if strings.HasPrefix(lockID, "-") {
		between = "=" // else it would be taken for a flag
	}
	return "holdfast state unlock " + name + " --id" + between + shellWord(lockID) + " --force"
}

// shellWord quotes what a shell would not take as one word: an id is any text that a client chose.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
