package engine

import (
	"context"
	"fmt"
	"io"
	"time"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// Bounds of making the lists that are missing: those of states from before there were lists, and of restored ones.
const (
	listBatch  = 100
	listWithin = 2 * time.Minute
)

// ClientEncrypted is why nothing can be said of what is in a document: OpenTofu encrypted it before it was sent.
const ClientEncrypted = "client_encrypted"

// ResourceFilter narrows a list of resources. Query matches a part of the address or the provider, as bytes, without
// regard to ASCII case.
type ResourceFilter struct {
	Org     string
	StateID string // "" for all of the organization
	Type    string // exact; "" for all
	Query   string
}

// StateResource is a resource with the name of the state that it is in.
type StateResource struct {
	State string
	state.Resource
}

// ResourceList is a page of the resources of one state's current document.
type ResourceList struct {
	Items      []StateResource
	Next       string
	Unreadable string // ClientEncrypted, or "" where it can be read
	Truncated  bool   // the document has more than are listed of one state
	Pending    bool   // the list was not made yet
}

// Resources searches the current documents of the organization's states, by address and then by state. Where f names
// no type, a page costs at most one look at each resource of the organization.
func (e *Engine) Resources(ctx context.Context, a access.Actor, f ResourceFilter, p Page) (items []StateResource, next string, err error) {
	if err := a.Allow(access.StateList); err != nil {
		return nil, "", err
	}
	f.Org = a.Org
	err = e.store.View(ctx, func(tx Tx) error {
		items, next, err = tx.Resources(ctx, f, p)
		return err
	})
	return items, next, err
}

// StateResources lists the resources of one state.
func (e *Engine) StateResources(ctx context.Context, a access.Actor, name string, f ResourceFilter, p Page) (l ResourceList, err error) {
	if err := a.Allow(access.StateList); err != nil {
		return l, err
	}
	if err := state.CheckName(name); err != nil {
		return l, err
	}
	err = e.store.View(ctx, func(tx Tx) error {
		s, err := tx.State(ctx, a.Org, name)
		if err = ownState(a, s, name, err); err != nil {
			return err
		}
		if err := state.Present(s); err != nil {
			return err
		}
		l = ResourceList{Truncated: s.List.Truncated, Pending: s.Head != nil && s.List.Hash == ""}
		if s.Head != nil && s.Head.Encrypted {
			l.Unreadable = ClientEncrypted
		}
		f.Org, f.StateID = a.Org, s.ID
		l.Items, l.Next, err = tx.Resources(ctx, f, p)
		return err
	})
	return l, err
}

// putList stores the resources of the state's new document. Most saves change none, and then there is nothing to do.
func putList(ctx context.Context, tx Tx, s state.State, list *state.Inventory) error {
	if list.Hash == s.List.Hash {
		return nil
	}
	return tx.SetResources(ctx, s.Org, s.ID, list.Resources(), state.List{Hash: list.Hash, Truncated: list.Truncated})
}

// listMissing makes the lists that are missing. What one call leaves, the next one takes: a state is done or it is as
// it was.
func (e *Engine) listMissing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	var failures []error
	for after := ""; ; {
		var ids []string
		err := e.store.View(ctx, func(tx Tx) (err error) {
			ids, err = tx.UnlistedStates(ctx, after, listBatch)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("look for states without a list of resources: %w", err)
		}
		for _, stateID := range ids {
			if err := e.listState(ctx, stateID); err != nil && ctx.Err() == nil {
				failures = append(failures, err)
			}
			after = stateID
		}
		if len(ids) < listBatch || ctx.Err() != nil {
			break
		}
	}
	if len(failures) > 0 { // one is enough to see: they tend to be of one kind, such as a key that is away
		e.log.WarnContext(ctx, "resources of states cannot be listed", "states", len(failures), "error", failures[0])
	}
	return nil
}

// listState lists the resources of the state's current document, unless there is another one by then.
func (e *Engine) listState(ctx context.Context, stateID string) error {
	var s state.State
	var o Object
	err := e.store.View(ctx, func(tx Tx) (err error) {
		if s, err = tx.StateByID(ctx, stateID); err != nil || s.Head == nil || s.List.Hash != "" {
			return err
		}
		o, err = versionObject(ctx, tx, *s.Head)
		return err
	})
	if err != nil || s.Head == nil || s.List.Hash != "" {
		return err
	}
	scanner := state.NewScanner()
	err = e.eachByte(ctx, o, func(r io.Reader) error {
		_, err := io.Copy(scanner, r)
		return err
	})
	if err != nil {
		return err
	}
	doc, err := scanner.Finish()
	if err != nil {
		return fmt.Errorf("read the stored document of %s: %w", s.Name, err)
	}
	return e.store.Update(ctx, func(tx Tx) error {
		now, err := tx.StateForUpdate(ctx, s.Org, s.Name)
		if fault.Is(err, fault.NotFound) || err == nil && (headID(now) != headID(s) || !now.DeletedAt.IsZero()) {
			return nil // another write has made the list, or none is wanted
		}
		if err != nil {
			return err
		}
		return putList(ctx, tx, now, doc.Inventory)
	})
}
