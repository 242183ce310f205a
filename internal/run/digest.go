package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
)

// PlanDigest is what an approval names: "sha256:" and the hex SHA-256 over everything the run's plans are and were
// made from, in order of component name: plan file, what was shown of it, source, inputs, provider lock file, root
// configuration, base state, tool and version. Each field goes in with its length, so no two runs share an encoding.
// A component without a plan is an Internal error.
func PlanDigest(r Run) (string, error) {
	h := sha256.New()
	field(h, string(r.Kind))
	components := slices.Clone(r.Components)
	slices.SortFunc(components, func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range components {
		if c.Plan == nil {
			return "", fmt.Errorf("digest of run %s: component %s has no plan", r.ID, c.Name)
		}
		inputs, err := CanonicalObject(c.Inputs)
		if err != nil {
			return "", fmt.Errorf("digest of run %s: inputs of component %s: %w", r.ID, c.Name, err)
		}
		view, err := compactView(c.Plan.View)
		if err != nil {
			return "", fmt.Errorf("digest of run %s: view of component %s: %w", r.ID, c.Name, err)
		}
		for _, f := range []string{
			c.Name, c.StateID, c.Plan.Digest, string(view), c.Source.SHA256, string(inputs), c.Plan.LockFile,
			c.Plan.ConfigHash, c.Plan.BaseSHA256, c.Plan.Tool, c.Plan.Version,
		} {
			field(h, f)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func field(h hash.Hash, text string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(text)))
	h.Write(n[:])
	_, _ = io.WriteString(h, text)
}

// compactView drops what is no content: space between tokens, and the choice of how a character is escaped in
// text. It gives the same bytes however often a store encodes the view again.
func compactView(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return json.Marshal(raw)
}

// CanonicalObject is the one encoding of a JSON object: keys in order, each once (the last wins), no space, numbers as they were
// written. Empty input is the empty object. Invalid where raw is anything but one JSON object.
func CanonicalObject(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	object := map[string]any{}
	if err := d.Decode(&object); err != nil || object == nil {
		return nil, notAnObject(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, notAnObject(err)
	}
	out, err := json.Marshal(object)
	if err != nil {
		return nil, notAnObject(err)
	}
	return out, nil
}

func notAnObject(err error) error {
	return fault.Wrap(err, fault.Invalid, "invalid_inputs", "The inputs are not one JSON object.").
		WithHint("Send an object from variable name to value.")
}
