package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// BackupState is a state in a backup.
type BackupState struct {
	Organization string    `json:"organization"` // its name
	Name         string    `json:"name"`
	Version      int64     `json:"version"` // the current one; 0 without
	Versions     int64     `json:"versions"`
	Size         int64     `json:"size"` // of the current version
	SHA256       string    `json:"sha256"`
	UpdatedAt    time.Time `json:"updated_at"`
	Deleted      bool      `json:"deleted"`
	id           string
}

// BackupVersion is a version of a state in a backup.
type BackupVersion struct {
	Version     int64     `json:"version"`
	Current     bool      `json:"current"`
	Quarantined bool      `json:"quarantined"`
	Size        int64     `json:"size"`
	SHA256      string    `json:"sha256"`
	Source      string    `json:"source"`
	CreatedAt   time.Time `json:"created_at"`
	KeyKind     string    `json:"key_kind"`
	KeyName     string    `json:"key_name"`
	KeyVersion  string    `json:"key_version"`
	object      string
}

// Exported is a document that was taken out of a backup.
type Exported struct {
	State   BackupState   `json:"state"`
	Version BackupVersion `json:"version"`
}

// StateChoice says which states, or which of them, are meant.
type StateChoice struct {
	Organization string // "" for all
	Name         string // "" for all
	Version      int64  // 0 for the current one
}

// BackupStates lists the states of a backup by organization and name. No key is needed.
func (a Admin) BackupStates(ctx context.Context, file string, c StateChoice) (states []BackupState, err error) {
	err = a.reading(ctx, file, func(r *records) error {
		states, err = r.states(c)
		if err != nil {
			return err
		}
		at := map[string]int{}
		for i, s := range states {
			at[s.id] = i
		}
		return r.each("versions", func(v fields) error {
			i, ok := at[v.text("state_id")]
			if !ok {
				return nil
			}
			s := &states[i]
			if s.Versions++; v.number("number") == s.Version {
				s.Size, s.SHA256 = v.number("size"), v.text("sha256")
			}
			return nil
		})
	})
	return states, err
}

// BackupVersions lists the versions of one state of a backup, oldest first. No key is needed.
func (a Admin) BackupVersions(ctx context.Context, file string, c StateChoice) (s BackupState, versions []BackupVersion, err error) {
	err = a.reading(ctx, file, func(r *records) error {
		if s, err = r.state(c); err != nil {
			return err
		}
		versions, err = r.versions(s)
		return err
	})
	return s, versions, err
}

// ExportState writes the document of one version of a state, byte for byte, to out. Neither a database nor a server is
// asked, only the keys that the settings name, and the object store where the document is there. What was written is the
// document only if there is no error.
func (a Admin) ExportState(ctx context.Context, file string, c StateChoice, out io.Writer) (x Exported, err error) {
	keys, err := a.openingKeys()
	if err != nil {
		return x, err
	}
	err = a.reading(ctx, file, func(r *records) error {
		if x.State, err = r.state(c); err != nil {
			return err
		}
		if x.Version, err = r.version(x.State, c.Version); err != nil {
			return err
		}
		o, err := r.object(x.Version)
		if err != nil {
			return err
		}
		sealed, err := a.sealedBytes(ctx, r, o)
		if err != nil {
			return err
		}
		defer func() { _ = sealed.Close() }() // it was only read
		plain, err := engine.OpenSealed(ctx, keys, o, sealed)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, plain)
		return errors.Join(err, plain.Close())
	})
	return x, err
}

// openingKeys are all keys that the settings name. One is enough that opens; none has to seal.
func (a Admin) openingKeys() (engine.Keys, error) {
	s := a.Settings
	if s.EncryptionKey.IsZero() && len(s.OldEncryptionKeys) > 0 {
		s.EncryptionKey, s.OldEncryptionKeys = s.OldEncryptionKeys[0], s.OldEncryptionKeys[1:]
	}
	if s.EncryptionKey.IsZero() && s.KeyBackend == "" {
		return noKeys{}, nil
	}
	k, err := openKeys(s, a.Log, a.Now)
	return k.ring, err
}

// noKeys names the key that would be needed.
type noKeys struct{ engine.Keys }

func (noKeys) OpenDataKey(_ context.Context, _, _ string, by state.Key, _ []byte) ([]byte, error) {
	hint := "Set HOLDFAST_TF_STATE_ENCRYPTION_KEY or HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS to it."
	if tag, _, ok := strings.Cut(by.Name, "/"); ok {
		hint = fmt.Sprintf("Set HOLDFAST_SECRET_BACKEND_%s_ADDR and what belongs to it.", tag)
	}
	return nil, fault.New(fault.Invalid, config.CodeInvalid, "This was sealed with the %s key %s, and no key is given.", by.Kind, by.Name).WithHint("%s", hint)
}

// reading checks a backup file as a whole, and then has fn read what it wants.
func (a Admin) reading(ctx context.Context, file string, fn func(*records) error) error {
	f, err := openBackup(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := backup.Verify(f, a.rows(ctx, "checking the file")); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s again: %w", file, err)
	}
	r, err := backup.NewReader(f)
	if err != nil {
		return err
	}
	defer r.Close()
	return fn(&records{ctx: ctx, r: r})
}

// records reads a backup's tables in their order: those before the wanted one are passed over.
type records struct {
	ctx  context.Context //nolint:containedctx // for the length of one reading
	r    *backup.Reader
	next backup.Row // read and not taken yet; without a table none
	end  bool
}

// take gives the next row of the table; ok is false after its last one.
func (r *records) take(table string) (f fields, ok bool, err error) {
	for !r.end {
		if err := context.Cause(r.ctx); err != nil {
			return f, false, err
		}
		if r.next.Table == nil {
			r.next, err = r.r.Next()
			if r.end = errors.Is(err, io.EOF); r.end {
				break
			}
			if err != nil {
				return f, false, err
			}
		}
		if r.next.Table.Name == table {
			f = fields{r.next}
			r.next = backup.Row{}
			return f, true, nil
		}
		if r.begun(table) {
			return f, false, nil // it is behind us
		}
		r.next = backup.Row{}
	}
	return f, false, nil
}

// begun reports whether the table's first line was read.
func (r *records) begun(table string) bool {
	return slices.ContainsFunc(r.r.Tables(), func(t *backup.Table) bool { return t.Name == table })
}

func (r *records) each(table string, fn func(fields) error) error {
	for {
		f, ok, err := r.take(table)
		if err == nil && ok {
			err = fn(f)
		}
		if err != nil || !ok {
			return err
		}
	}
}

// fields are a row's values by name. What the row does not have is a zero value.
type fields struct{ row backup.Row }

func (f fields) value(name string) any {
	if i := f.row.Table.Index(name); i >= 0 {
		return f.row.Values[i]
	}
	return nil
}

func (f fields) text(name string) string  { s, _ := f.value(name).(string); return s }
func (f fields) number(name string) int64 { n, _ := f.value(name).(int64); return n }
func (f fields) bool(name string) bool    { b, _ := f.value(name).(bool); return b }
func (f fields) bytes(name string) []byte { b, _ := f.value(name).([]byte); return b }
func (f fields) at(name string) time.Time { return time.UnixMicro(f.number(name)).UTC() }
func (f fields) key() (k state.Key) {
	return state.Key{Kind: f.text("key_kind"), Name: f.text("key_name"), Version: f.text("key_version")}
}

func (r *records) states(c StateChoice) (states []BackupState, err error) {
	names := map[string]string{}
	err = r.each("organizations", func(f fields) error {
		names[f.text("id")] = f.text("name")
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.each("states", func(f fields) error {
		s := BackupState{
			Organization: names[f.text("org")], Name: f.text("name"), Version: f.number("head"), UpdatedAt: f.at("updated_at"),
			Deleted: f.number("deleted_at") != 0, id: f.text("id"),
		}
		if (c.Name == "" || c.Name == s.Name) && (c.Organization == "" || c.Organization == s.Organization) {
			states = append(states, s)
		}
		return nil
	})
	slices.SortFunc(states, func(a, b BackupState) int {
		if n := strings.Compare(a.Organization, b.Organization); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	return states, err
}

// state is the one that is meant.
func (r *records) state(c StateChoice) (BackupState, error) {
	states, err := r.states(c)
	switch {
	case err != nil:
		return BackupState{}, err
	case len(states) == 0:
		return BackupState{}, fault.New(fault.NotFound, "state_not_found", "The backup has no state %s.", c.Name).
			WithHint("holdfast admin export-state --backup FILE --list lists those it has.")
	case len(states) > 1:
		var orgs []string
		for _, s := range states {
			orgs = append(orgs, s.Organization)
		}
		return BackupState{}, fault.New(fault.Invalid, "state_ambiguous", "%d organizations have a state %s: %s.", len(states), c.Name, strings.Join(orgs, ", ")).
			WithHint("Say which with --organization.")
	}
	return states[0], nil
}

func (r *records) versions(s BackupState) (versions []BackupVersion, err error) {
	err = r.each("versions", func(f fields) error {
		if f.text("state_id") != s.id {
			return nil
		}
		k := f.key()
		versions = append(versions, BackupVersion{
			Version: f.number("number"), Current: f.number("number") == s.Version, Quarantined: f.bool("quarantined"), Size: f.number("size"),
			SHA256: f.text("sha256"), Source: f.text("source"), CreatedAt: f.at("created_at"), object: f.text("id"),
			KeyKind: k.Kind, KeyName: k.Name, KeyVersion: k.Version,
		})
		return nil
	})
	return versions, err
}

// version is the one that is meant, number 0 the current one.
func (r *records) version(s BackupState, number int64) (BackupVersion, error) {
	if number == 0 {
		number = s.Version
	}
	if number == 0 {
		return BackupVersion{}, fault.New(fault.NotFound, "state_empty", "Nothing was stored in the state %s when the backup was made.", s.Name)
	}
	versions, err := r.versions(s)
	if err != nil {
		return BackupVersion{}, err
	}
	for _, v := range versions {
		if v.Version == number {
			return v, nil
		}
	}
	return BackupVersion{}, fault.New(fault.NotFound, "version_not_found", "The backup has no version %d of %s.", number, s.Name).
		WithHint("holdfast admin export-state %s --backup FILE --list lists those it has.", s.Name)
}

// object is the sealed bytes of a version, or says where its chunks are. What the version says of the document is what
// it is checked against.
func (r *records) object(v BackupVersion) (o engine.Object, err error) {
	for {
		f, ok, err := r.take("objects")
		if err != nil {
			return o, err
		}
		if !ok {
			return o, fault.New(fault.Internal, "object_missing", "The backup does not hold the bytes of version %d.", v.Version).
				WithHint("Try another version, or another backup.")
		}
		if f.text("id") != v.object {
			continue
		}
		return engine.Object{
			ID: v.object, Org: f.text("org"), Kind: f.text("kind"), Key: f.key(), Wrapped: f.bytes("wrapped"), Size: v.Size, SHA256: v.SHA256,
			Sealed: f.number("sealed"), Inline: f.bytes("inline"), Chunks: int(f.number("chunks")), Place: f.text("place"),
		}, nil
	}
}

// sealedBytes reads the stored bytes of o, from the backup or from where it says that they are.
func (a Admin) sealedBytes(ctx context.Context, r *records, o engine.Object) (io.ReadCloser, error) {
	switch {
	case o.Place != engine.PlaceDatabase:
		blobs, err := openBlobs(a.Settings.Blob)
		if err != nil {
			return nil, err
		}
		return engine.OpenBlob(ctx, blobs, o)
	case o.Chunks > 0:
		return io.NopCloser(&chunks{r: r, object: o.ID, count: o.Chunks}), nil
	}
	return io.NopCloser(bytes.NewReader(o.Inline)), nil
}

// chunks reads an object's chunks as they come.
type chunks struct {
	r      *records
	object string
	count  int
	seq    int
	left   []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		if c.seq == c.count {
			return 0, io.EOF
		}
		f, ok, err := c.r.take("chunks")
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, fault.New(fault.Internal, "object_missing", "The backup holds %d of %d parts of %s.", c.seq, c.count, c.object).
				WithHint("Try another version, or another backup.")
		}
		if f.text("object") != c.object {
			continue
		}
		if f.number("seq") != int64(c.seq) {
			return 0, fault.New(fault.Internal, "object_missing", "The backup does not hold part %d of %s.", c.seq, c.object)
		}
		c.seq, c.left = c.seq+1, f.bytes("data")
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}
