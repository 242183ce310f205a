// Package backup is the file format of a backup: what the database holds, in a form that belongs to no database, and
// that people can read with zstd and jq should Holdfast be gone.
//
// A file is one zstd stream of lines that end in "\n":
//
//	{"holdfast_backup":1,"id":…,"schema":…,…}      the Header
//	{"table":"states","columns":[{"name":"id","type":"text"},…]}
//	["sta_…","shop.main",1750000000123456,true,"aGV4"]   a row: a value for each column
//	…                                                more rows, more tables
//	{"end":{"tables":{"states":12,…},"sha256":"…"}}      the Trailer
//
// A text is a JSON string, a bigint a whole number of 64 bits, a boolean true or false, bytes are base64. Nothing is
// null. The SHA-256 is over all bytes of the stream before the trailer's line; without a trailer the file was cut.
// What was sealed in the database is sealed here: the keys that open it are named and not held.
package backup

import (
	"fmt"
	"regexp"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// Format is the version of the format that is written, and the newest that is read.
const Format = 1

// Bounds of what is read. A file beyond them is none of ours.
const (
	maxLine   = 128 << 20 // bytes; the longest row the database can hold is a component's, with a plan's view of 16 MiB
	maxWindow = 8 << 20   // bytes of the decompressor
	maxTables = 1000
	maxFields = 1000 // columns of a table
)

// CodeDamaged is the code of errors of a file that is not as it was written.
const CodeDamaged = "backup_damaged"

// Header says what a backup is.
type Header struct {
	Format    int       `json:"holdfast_backup"`
	ID        string    `json:"id"`         // id.Backup
	CreatedAt time.Time `json:"created_at"` // everything committed before it is in the file
	Holdfast  string    `json:"holdfast"`   // the version that wrote it
	Schema    int64     `json:"schema"`     // of the database
	States    int64     `json:"states"`     // how many are in it, deleted ones too
	Elsewhere int64     `json:"elsewhere"`  // objects whose bytes are in an object store, and not in the file
	Keys      []KeyUse  `json:"keys"`       // that open what is sealed in it
	Audit     []Anchor  `json:"audit"`      // the end of each organization's audit chain
}

// KeyUse is a key that objects of the backup are sealed with.
type KeyUse struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Objects int64  `json:"objects"`
}

// Key is the key as objects name it.
func (u KeyUse) Key() state.Key { return state.Key{Kind: u.Kind, Name: u.Name, Version: u.Version} }

// Anchor is the last record of an organization's audit chain.
type Anchor struct {
	Organization string `json:"organization"` // its name
	Org          string `json:"org"`          // its id
	Seq          int64  `json:"seq"`
	Hash         string `json:"hash"`
}

// String is the anchor as audit verify takes it.
func (a Anchor) String() string { return fmt.Sprintf("%d:%s", a.Seq, a.Hash) }

// Table is a table's columns, in the order of the values of its rows.
type Table struct {
	Name    string   `json:"table"`
	Columns []Column `json:"columns"`
}

// Column is a column's name and type.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Type is what values of a column are, in the words of the schema.
type Type string

// The types, with the Go type of their values.
const (
	Text    Type = "text"    // string
	Bigint  Type = "bigint"  // int64
	Boolean Type = "boolean" // bool
	Bytes   Type = "bytea"   // []byte
)

// Trailer ends a whole file.
type Trailer struct {
	Tables map[string]int64 `json:"tables"` // rows of each
	SHA256 string           `json:"sha256"` // hex
}

// Rows is how many rows there are in all.
func (t Trailer) Rows() (n int64) {
	for _, rows := range t.Tables {
		n += rows
	}
	return n
}

// Index is the place of the column among a row's values, -1 where there is none.
func (t Table) Index(column string) int {
	for i, c := range t.Columns {
		if c.Name == column {
			return i
		}
	}
	return -1
}

func (t Table) check() error {
	plain := regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	if !plain.MatchString(t.Name) || len(t.Columns) == 0 || len(t.Columns) > maxFields {
		return fmt.Errorf("there is no table such as %.80q with %d columns", t.Name, len(t.Columns))
	}
	seen := map[string]bool{}
	for _, c := range t.Columns {
		if !plain.MatchString(c.Name) || seen[c.Name] {
			return fmt.Errorf("table %s has no column %.80q, or has it twice", t.Name, c.Name)
		}
		seen[c.Name] = true
		switch c.Type {
		case Text, Bigint, Boolean, Bytes:
		default:
			return fmt.Errorf("column %s.%s is of the type %.80q, which is unknown", t.Name, c.Name, c.Type)
		}
	}
	return nil
}

// damaged is the error of a file that is not as it was written.
func damaged(err error) error {
	return fault.Wrap(err, fault.Internal, CodeDamaged, "The backup file is damaged or was cut: %v.", err).
		WithHint("Use another copy of it, or another backup. Nothing of this one was used.")
}
