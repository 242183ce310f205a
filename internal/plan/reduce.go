package plan

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// majorVersion of the plan documents that are understood; both tools write 1.2.
const majorVersion = "1"

// Reduce reduces what `show -json` printed of a saved plan. It reads the document twice, since what is secret stands
// behind what has to be hidden, and holds one resource of it at a time. known are secrets that the caller knows of
// besides. A document of an unknown major version and one that is not whole are refused.
func Reduce(doc io.ReadSeeker, known ...redact.Secret) (*View, error) {
	r := &reader{
		view:    &View{Format: Format, Changes: []Change{}, OutputChanges: []OutputChange{}, Drift: []Change{}, Checks: []Check{}},
		secrets: redact.NewKnown(known...), actions: sha256.New(),
		high: MaxBytes / 2, low: MaxBytes / 2,
	}
	for _, pass := range []func(*json.Decoder, string) error{r.collect, r.reduce} {
		if _, err := doc.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the plan: %w", err)
		}
		if err := r.document(doc, pass); err != nil {
			return nil, err
		}
		if !r.secrets.Compiled() {
			if err := r.secrets.Compile(); err != nil {
				return nil, fmt.Errorf("read the plan: %w", err)
			}
		}
	}
	r.finish()
	return r.view, nil
}

type reader struct {
	view      *View
	secrets   *redact.Known
	sensitive map[string]bool // variables declared so
	variables map[string]any
	actions   hash.Hash
	lines     []string // of the actions digest
	version   string
	high, low int // bytes left for attributes
}

func unreadable(err error) error {
	return fault.Wrap(err, fault.Unprocessable, "plan_unreadable", "What the tool printed about the plan cannot be read.").
		WithHint("Plan again; if it stays so, the tool's version is not one this release knows.")
}

// document walks the top level.
func (r *reader) document(doc io.Reader, section func(*json.Decoder, string) error) error {
	dec := json.NewDecoder(doc)
	dec.UseNumber()
	r.version = ""
	if err := object(dec, func(key string) error { return section(dec, key) }); err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return unreadable(err)
	}
	if r.version == "" {
		return unreadable(errors.New("no format_version"))
	}
	return nil
}

func (r *reader) checkVersion(dec *json.Decoder) error {
	if err := dec.Decode(&r.version); err != nil {
		return err
	}
	if major, _, _ := strings.Cut(r.version, "."); major != majorVersion {
		return fault.New(fault.Unprocessable, "plan_format", "The plan is written in format %.20q; this release reads format %s.x.", r.version, majorVersion).
			WithHint("Use a tool this release knows, or upgrade Holdfast.")
	}
	return nil
}

// collect is the first pass: the secrets.
func (r *reader) collect(dec *json.Decoder, key string) error {
	switch key {
	case "format_version":
		return r.checkVersion(dec)
	case "variables":
		var vars map[string]struct {
			Value any `json:"value"`
		}
		if err := dec.Decode(&vars); err != nil {
			return err
		}
		r.variables = map[string]any{}
		for name, v := range vars {
			r.variables[name] = v.Value
		}
		return nil
	case "resource_changes", "resource_drift":
		return array(dec, func() error {
			var c struct {
				Change wireChange `json:"change"`
			}
			if err := dec.Decode(&c); err != nil {
				return err
			}
			return c.Change.collect(r.secrets)
		})
	case "output_changes":
		return object(dec, func(string) error {
			var c wireChange
			if err := dec.Decode(&c); err != nil {
				return err
			}
			return c.collect(r.secrets)
		})
	case "prior_state":
		return within(dec, func(key string) error {
			if key == "values" {
				return r.stateValues(dec)
			}
			return skip(dec)
		})
	case "configuration":
		return r.configuration(dec)
	}
	return skip(dec)
}

// stateValues takes the outputs and modules of a state apart.
func (r *reader) stateValues(dec *json.Decoder) error {
	return within(dec, func(key string) error {
		switch key {
		case "outputs":
			return within(dec, func(string) error {
				var o struct {
					Sensitive bool `json:"sensitive"`
					Value     any  `json:"value"`
				}
				if err := dec.Decode(&o); err != nil {
					return err
				}
				r.secrets.CollectMarked(o.Value, o.Sensitive)
				return nil
			})
		case "root_module":
			return r.stateModule(dec)
		}
		return skip(dec)
	})
}

func (r *reader) stateModule(dec *json.Decoder) error {
	return within(dec, func(key string) error {
		switch key {
		case "resources":
			return array(dec, func() error {
				var res struct {
					Values    json.RawMessage `json:"values"`
					Sensitive json.RawMessage `json:"sensitive_values"`
				}
				if err := dec.Decode(&res); err != nil {
					return err
				}
				return collectRaw(r.secrets, res.Values, res.Sensitive)
			})
		case "child_modules":
			return array(dec, func() error { return r.stateModule(dec) })
		}
		return skip(dec)
	})
}

// configuration looks for the root module's variables that are declared sensitive: their values stand in the document
// without any mark.
func (r *reader) configuration(dec *json.Decoder) error {
	r.sensitive = map[string]bool{}
	err := within(dec, func(key string) error {
		if key != "root_module" {
			return skip(dec)
		}
		return within(dec, func(key string) error {
			if key != "variables" {
				return skip(dec)
			}
			return within(dec, func(name string) error {
				var v struct {
					Sensitive bool `json:"sensitive"`
					Ephemeral bool `json:"ephemeral"`
					Default   any  `json:"default"`
				}
				if err := dec.Decode(&v); err != nil {
					return err
				}
				if v.Sensitive || v.Ephemeral {
					r.sensitive[name] = true
					r.secrets.Collect(v.Default)
				}
				return nil
			})
		})
	})
	for name := range r.sensitive {
		r.secrets.Collect(r.variables[name])
	}
	return err
}

// reduce is the second pass: the view.
func (r *reader) reduce(dec *json.Decoder, key string) error {
	switch key {
	case "format_version":
		return r.checkVersion(dec)
	case "terraform_version":
		return dec.Decode(&r.view.ToolVersion)
	case "errored":
		return dec.Decode(&r.view.Errored)
	case "complete":
		var complete *bool
		err := dec.Decode(&complete)
		r.view.Incomplete = r.view.Incomplete || complete != nil && !*complete
		return err
	case "deferred_changes":
		return array(dec, func() error {
			r.view.Incomplete = true
			return skip(dec)
		})
	case "resource_changes":
		return array(dec, func() error { return r.resource(dec, false) })
	case "resource_drift":
		return array(dec, func() error { return r.resource(dec, true) })
	case "output_changes":
		return object(dec, func(name string) error { return r.output(dec, name) })
	case "checks":
		return array(dec, func() error { return r.check(dec) })
	}
	return skip(dec)
}

func (r *reader) finish() {
	v := r.view
	byDanger := func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Class.rank(), b.Class.rank()), strings.Compare(a.Address, b.Address), strings.Compare(a.Deposed, b.Deposed))
	}
	slices.SortStableFunc(v.Changes, byDanger)
	slices.SortStableFunc(v.Drift, byDanger)
	slices.SortFunc(v.OutputChanges, func(a, b OutputChange) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Checks, func(a, b Check) int { return strings.Compare(a.Address, b.Address) })
	slices.Sort(r.lines)
	for _, line := range r.lines {
		_, _ = io.WriteString(r.actions, line) // a hash never fails
	}
	v.ActionsDigest = "sha256:" + hex.EncodeToString(r.actions.Sum(nil))
}

// object calls each with every key of an object; each must consume the value.
func object(dec *json.Decoder, each func(key string) error) error {
	if err := expect(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("key expected, got %v", t)
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return expect(dec, '}')
}

// within is object for a value that may also be null or of another type, which is passed over.
func within(dec *json.Decoder, each func(key string) error) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return rest(dec, t)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := each(key); err != nil {
			return err
		}
	}
	return expect(dec, '}')
}

// array calls each before every element; null is an empty array.
func array(dec *json.Decoder, each func() error) error {
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("list expected, got %v", t)
	}
	for dec.More() {
		if err := each(); err != nil {
			return err
		}
	}
	return expect(dec, ']')
}

func expect(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("%v expected, got %v", want, t)
	}
	return nil
}

// skip passes over one value without holding it.
func skip(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	return rest(dec, t)
}

// rest passes over what is left of a value that began with t.
func rest(dec *json.Decoder, t json.Token) error {
	depth := 0
	for {
		if d, ok := t.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
		}
		if depth <= 0 {
			return nil
		}
		var err error
		if t, err = dec.Token(); err != nil {
			return err
		}
	}
}

// tree decodes a value, keeping every digit of its numbers.
func tree(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func collectRaw(s *redact.Known, value, marks json.RawMessage) error {
	if !bytes.Contains(marks, []byte("true")) {
		return nil // nearly all resources: their values need not be decoded
	}
	v, err := tree(value)
	if err != nil {
		return err
	}
	m, err := tree(marks)
	if err != nil {
		return err
	}
	s.CollectMarked(v, m)
	return nil
}
