package tofu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/redact"
)

// Output is one output value after an apply. A sensitive one prints as redacted.
type Output struct {
	Type      json.RawMessage // in cty's notation, e.g. "string" or ["list","string"]
	Value     json.RawMessage // nil for a sensitive one
	Secret    redact.Secret   // the value's JSON, of a sensitive one
	Sensitive bool
}

// Outputs by name.
type Outputs map[string]Output

// ParseOutputs reads what `output -json` printed. Numbers keep every digit.
func ParseOutputs(out []byte) (Outputs, error) {
	var doc map[string]struct {
		Sensitive bool            `json:"sensitive"`
		Type      json.RawMessage `json:"type"`
		Value     json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("read what output printed: %w", err)
	}
	all := Outputs{}
	for name, o := range doc {
		value := compact(o.Value)
		if o.Sensitive {
			all[name] = Output{Type: compact(o.Type), Secret: redact.NewSecret(string(value)), Sensitive: true}
		} else {
			all[name] = Output{Type: compact(o.Type), Value: value}
		}
	}
	return all, nil
}

// Public gives the values that may be shown, and the names of those that were withheld, sorted.
func (o Outputs) Public() (values map[string]json.RawMessage, withheld []string) {
	values = map[string]json.RawMessage{}
	for _, name := range slices.SortedFunc(maps.Keys(o), strings.Compare) {
		if o[name].Sensitive {
			withheld = append(withheld, name)
		} else {
			values[name] = o[name].Value
		}
	}
	return values, withheld
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
