package state

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
)

// Document is what a state document says of itself in clear.
type Document struct {
	Serial    Serial
	Lineage   string     // "" where it has none
	Terraform string     // terraform_version, "" where it has none
	Encrypted bool       // OpenTofu encrypted it before sending
	Resources bool       // it is known to hold resources or outputs; false for an encrypted one, whose are not known
	Inventory *Inventory // its resources by name; never nil for what Finish says
}

// The limits of what is kept of a document.
const (
	maxLineageBytes   = 255
	maxTerraformBytes = 64
	maxCaptured       = 2048 // bytes of a value as written, escapes included
)

// Scanner checks a state document and reads what it says of itself, as its bytes pass by; it holds none of them.
// Write refuses what is not JSON (Invalid) and what is no state (Unprocessable) as soon as it is seen, Finish what
// shows only at the end.
type Scanner struct {
	json  jsonScanner
	list  inventory
	known [fields]bool // which fields were seen
	doc   Document

	serialAt  Span
	version   string // as written
	encrypted bool   // encrypted_data is a string
}

// field is a field of the document's top level that is known here.
type field int

const (
	fieldVersion field = iota
	fieldTerraform
	fieldSerial
	fieldLineage
	fieldResources
	fieldOutputs
	fieldMeta
	fieldEncrypted
	fieldEncryption
	fieldChecks
	fields
	fieldUnknown field = -1
)

func fieldNames() [fields]string {
	return [fields]string{
		"version", "terraform_version", "serial", "lineage", "resources", "outputs", "meta", "encrypted_data",
		"encryption_version", "check_results",
	}
}

func fieldOf(name string) field {
	for i, f := range fieldNames() {
		// The tools match names without regard to case, so two that differ by case alone are one to them.
		if strings.EqualFold(name, f) {
			return field(i)
		}
	}
	return fieldUnknown
}

// NewScanner makes a Scanner for one document.
func NewScanner() *Scanner {
	s := &Scanner{}
	s.json.begin(s)
	return s
}

// Write takes the next bytes of the document.
func (s *Scanner) Write(p []byte) (int, error) {
	if err := s.json.scan(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// key tells of a field of the top level; raw is its quoted name, nil where that is too long to be known.
func (s *Scanner) key(raw []byte) (field, error) {
	name, _ := unquote(raw) // "" where it is no text, which is no field's name
	f := fieldOf(name)
	if f == fieldUnknown {
		return f, nil
	}
	if s.known[f] {
		return f, invalidState("Its field %s is there twice.", fieldNames()[f])
	}
	s.known[f] = true
	return f, nil
}

// value tells of the value of a known field: as written where it is a string, a number or a literal and not longer
// than maxCaptured; else what it begins with. filled is whether an object or array has anything in it.
func (s *Scanner) value(f field, raw []byte, filled bool) error {
	kind := raw[0]
	switch f {
	case fieldVersion:
		s.version = string(raw)
	case fieldSerial:
		return s.serial(raw)
	case fieldLineage:
		return s.lineage(raw)
	case fieldTerraform:
		// For people to read, so anything odd is dropped rather than refused.
		if text, _ := unquote(raw); len(text) <= maxTerraformBytes && printable(text) {
			s.doc.Terraform = text
		}
	case fieldResources, fieldOutputs:
		s.doc.Resources = s.doc.Resources || filled
	case fieldEncrypted:
		s.encrypted = kind == '"'
	}
	return nil
}

func (s *Scanner) serial(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return invalidState("Its serial is not a whole number from 0 to 18446744073709551615.")
	}
	s.doc.Serial = Serial{N: n, Known: true}
	s.serialAt = Span{At: s.json.valueAt, Len: int64(len(raw))}
	return nil
}

// Span is a piece of a document, in bytes.
type Span struct{ At, Len int64 }

// SerialAt is where the digits of the serial stand; zero where there are none.
func (s *Scanner) SerialAt() Span { return s.serialAt }

func (s *Scanner) lineage(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	text, ok := unquote(raw)
	if !ok || len(text) > maxLineageBytes || !printable(text) {
		return invalidState("Its lineage is not a string of at most %d printable bytes.", maxLineageBytes)
	}
	s.doc.Lineage = text
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0
}

// Finish says what the document is, once all of it was written.
func (s *Scanner) Finish() (Document, error) {
	if err := s.json.end(); err != nil {
		return Document{}, err
	}
	d := s.doc
	switch {
	case !s.known[fieldVersion] && s.encrypted:
		d.Encrypted, d.Resources = true, false
		d.Inventory = new(inventory).finish()
		return d, nil
	case !s.known[fieldVersion]:
		return Document{}, invalidState("It has neither a version nor encrypted data.")
	case s.version == "4":
		d.Inventory = s.list.finish()
		return d, nil
	}
	n, err := strconv.ParseUint(s.version, 10, 64)
	switch {
	case err != nil:
		return Document{}, invalidState("Its version is not a number.")
	case n < 4:
		return Document{}, fault.New(fault.Unprocessable, "state_too_old", "This is a state of format version %d; formats before 4 are not taken.", n).
			WithHint("Upgrade it: open it once with Terraform 0.13 (terraform apply -refresh-only of a later 0.x, or terraform refresh), then send what state pull prints.")
	}
	return Document{}, invalidState("It is of format version %d, which no tool known here writes.", n)
}

func invalidState(format string, args ...any) *fault.Error {
	return fault.New(fault.Unprocessable, "invalid_state", "This is not a state document. "+format, args...).
		WithHint("Send what tofu state pull or terraform state pull prints.")
}
