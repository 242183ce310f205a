package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
)

// Limits of a lock document.
const (
	MaxLockBytes   = 16 << 10 // of the document
	MaxLockIDChars = 255
)

// ParseLock reads the document of a lock request. It must be an object with an ID of 1 to 255 characters; every
// field the tools send must be a string and may be there once. Other fields are dropped, and so is a Created that is
// not an RFC 3339 time, since other lockers read it back as one.
func ParseLock(doc []byte) (LockInfo, error) {
	info, err := parseLock(doc)
	if err != nil {
		return LockInfo{}, err
	}
	if info.ID == "" {
		return LockInfo{}, invalidLock("It has no ID.")
	}
	return info, nil
}

// zeroTime is the Created of a lock document that was never filled in.
const zeroTime = "0001-01-01T00:00:00Z"

// ParseUnlock reads the document of an unlock request. An empty one asks to release whatever lock is held: id is
// then "". Any other must name the lock, by the rules of ParseLock. force is whether it is what a tool's force-unlock
// sends: Terraform's nothing, OpenTofu's a document that was never filled in but for the ID. What ends a tool's own
// work is the document that it locked with.
func ParseUnlock(doc []byte) (id string, force bool, err error) {
	if len(doc) == 0 {
		return "", true, nil
	}
	info, err := ParseLock(doc)
	return info.ID, err == nil && info == LockInfo{ID: info.ID, Created: zeroTime}, err
}

func parseLock(doc []byte) (LockInfo, error) {
	if len(doc) > MaxLockBytes {
		return LockInfo{}, fault.New(fault.TooLarge, "lock_too_large", "The lock document has more than %d bytes.", MaxLockBytes)
	}
	var info LockInfo
	fields := map[string]*string{
		"ID": &info.ID, "Operation": &info.Operation, "Info": &info.Info, "Who": &info.Who,
		"Version": &info.Version, "Created": &info.Created, "Path": &info.Path,
	}
	err := eachField(doc, func(name string, raw json.RawMessage) error {
		to := fields[name]
		if to == nil {
			return nil
		}
		text, ok := unquote(raw)
		if !ok {
			return invalidLock("Its " + name + " is not a string of Unicode text.")
		}
		if name == "ID" && utf8.RuneCountInString(text) > MaxLockIDChars {
			return invalidLock("Its ID has more than 255 characters.")
		}
		*to = text
		return nil
	})
	if err != nil {
		return LockInfo{}, err
	}
	var created time.Time
	if created.UnmarshalText([]byte(info.Created)) != nil || strings.Contains(info.Created, ",") { // Go takes a comma, RFC 3339 does not
		info.Created = ""
	}
	return info, nil
}

// eachField calls f for each field of the object that doc is, and refuses a name that is there twice.
func eachField(doc []byte, f func(name string, raw json.RawMessage) error) error {
	notObject := invalidLock("It is not a JSON object.")
	d := json.NewDecoder(bytes.NewReader(doc))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notObject
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return notObject
		}
		name, _ := t.(string) // a name is a string, or the decoder has refused it
		if seen[name] {
			return invalidLock("One of its fields is there twice.")
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return notObject
		}
		if err := f(name, raw); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return notObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return notObject
	}
	return nil
}

func invalidLock(why string) *fault.Error {
	return fault.New(fault.Invalid, "invalid_lock", "The lock document is refused. %s", why).
		WithHint("Send what tofu and terraform send: an object with ID, Operation, Info, Who, Version, Created and Path.")
}
