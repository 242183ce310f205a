package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/fault"
)

// kindAuditKey is the kind of the object that holds the key of the audit chains: the chains have to stay verifiable
// when the key that seals is changed, and have a key also where no platform key is given.
const kindAuditKey = "audit_key"

const (
	auditKeySetting = "audit_key" // the setting that holds the object's id
	auditKeyBytes   = 32
	// auditUnkeyed is the setting of an installation that recorded before it had any key. The sealed key remembers it by a
	// byte more, so that nobody who can write the tables can pass a forged beginning off as such.
	auditUnkeyed = "audit_unkeyed"
)

// OpenAuditKey opens the key of the audit chains; the first start makes it. Until it is
// open, whatever would write a record is refused as Unavailable; Sweep tries again. An installation that never had any
// key records without one.
func (e *Engine) OpenAuditKey(ctx context.Context) error {
	if e.chain.Load() != nil {
		return nil
	}
	key, err := e.readAuditKey(ctx)
	if fault.Is(err, fault.NotFound) && !e.sealed() {
		return e.openUnkeyed(ctx)
	}
	if fault.Is(err, fault.NotFound) {
		if err = e.makeAuditKey(ctx); err == nil || fault.Is(err, fault.Conflict) { // another server was first
			key, err = e.readAuditKey(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("open the key of the audit chains: %w", err)
	}
	if len(key) < auditKeyBytes {
		return fmt.Errorf("the key of the audit chains has %d bytes", len(key))
	}
	chain, err := audit.NewChain(key[:auditKeyBytes], e.derived...)
	if err != nil {
		return err
	}
	if len(key) > auditKeyBytes {
		chain = chain.AfterUnkeyed()
	}
	e.chain.Store(chain)
	return nil
}

// openUnkeyed notes that there are records without a key before the first of them is written.
func (e *Engine) openUnkeyed(ctx context.Context) error {
	err := e.store.Update(ctx, func(tx Tx) error { return tx.SetSettingOnce(ctx, auditUnkeyed, "true") })
	if err != nil && !fault.Is(err, fault.Conflict) {
		return fmt.Errorf("note that the audit chains have no key: %w", err)
	}
	e.chain.Store(audit.NewUnkeyed())
	return nil
}

// readAuditKey is NotFound where none was made yet.
func (e *Engine) readAuditKey(ctx context.Context) ([]byte, error) {
	var o Object
	err := e.store.View(ctx, func(tx Tx) error {
		known, err := tx.Setting(ctx, auditKeySetting)
		if err != nil {
			return err
		}
		if o, err = tx.Object(ctx, known); fault.Is(err, fault.NotFound) {
			return objectMissing(err, Object{ID: known}) // a new key would make every chain look broken
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := e.openObject(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // all of it was read and checked
	return io.ReadAll(r)
}

func (e *Engine) makeAuditKey(ctx context.Context) error {
	key := make([]byte, auditKeyBytes)
	_, _ = rand.Read(key) // never fails since Go 1.24: the process ends instead
	if len(e.derived) > 0 {
		key = e.derived[0]
	}
	err := e.store.View(ctx, func(tx Tx) error {
		_, err := tx.Setting(ctx, auditUnkeyed)
		return err
	})
	switch {
	case err == nil:
		key = append(key[:auditKeyBytes:auditKeyBytes], 1)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	o, err := e.sealObject(ctx, "", kindAuditKey, bytes.NewReader(key), auditKeyBytes+1)
	if err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx Tx) error {
		// The setting first: of two servers that start together, one has a Conflict here.
		if err := tx.SetSettingOnce(ctx, auditKeySetting, o.ID); err != nil {
			return err
		}
		return tx.AttachObject(ctx, o)
	})
}

// auditChain is Unavailable while the chains' key is not open.
func (e *Engine) auditChain() (*audit.Chain, error) {
	if c := e.chain.Load(); c != nil {
		return c, nil
	}
	return nil, fault.New(fault.Unavailable, "audit_key_closed", "The key of the audit log could not be opened yet, so nothing that is recorded there can be done.").
		WithHint("Readiness (/readyz) says what is wrong with the key service.")
}
