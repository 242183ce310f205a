package plan

import (
	"encoding/json"
	"strconv"
	"strings"

	"holdfast.dev/holdfast/internal/redact"
)

type wireResource struct {
	Address         string     `json:"address"`
	PreviousAddress string     `json:"previous_address"`
	Module          string     `json:"module_address"`
	Mode            string     `json:"mode"`
	Type            string     `json:"type"`
	Name            string     `json:"name"`
	Provider        string     `json:"provider_name"`
	Deposed         string     `json:"deposed"`
	Reason          string     `json:"action_reason"`
	Change          wireChange `json:"change"`
}

type wireChange struct {
	Actions         []string        `json:"actions"`
	Before          json.RawMessage `json:"before"`
	After           json.RawMessage `json:"after"`
	AfterUnknown    json.RawMessage `json:"after_unknown"`
	BeforeSensitive json.RawMessage `json:"before_sensitive"`
	AfterSensitive  json.RawMessage `json:"after_sensitive"`
	ReplacePaths    [][]any         `json:"replace_paths"`
	Importing       *struct {
		ID string `json:"id"`
	} `json:"importing"`
}

func (c *wireChange) collect(s *redact.Known) error {
	if err := collectRaw(s, c.Before, c.BeforeSensitive); err != nil {
		return err
	}
	return collectRaw(s, c.After, c.AfterSensitive)
}

func (c *wireChange) sides() (s sides, err error) {
	for _, part := range []struct {
		to  *any
		raw json.RawMessage
	}{
		{&s.before, c.Before},
		{&s.after, c.After},
		{&s.unknown, c.AfterUnknown},
		{&s.secretBefore, c.BeforeSensitive},
		{&s.secretAfter, c.AfterSensitive},
	} {
		if *part.to, err = tree(part.raw); err != nil {
			return s, err
		}
	}
	s.hadBefore, s.hasAfter = s.before != nil, s.after != nil
	return s, nil
}

func (r *reader) resource(dec *json.Decoder, drift bool) error {
	var w wireResource
	if err := dec.Decode(&w); err != nil {
		return err
	}
	moved := w.PreviousAddress != "" && w.PreviousAddress != w.Address
	imported := w.Change.Importing != nil
	class, createFirst := classify(w.Change.Actions, moved, imported)
	list := &r.view.Changes
	if drift {
		list = &r.view.Drift
		if class != Noop && class != Move {
			r.view.Drifted++
		}
	} else {
		r.view.add(class, moved, imported)
		r.digest(&w, class)
	}
	if class == Noop {
		return nil
	}
	if len(*list) == MaxChanges && !r.evict(list, class) {
		return nil
	}
	c := Change{
		Address: r.secrets.Clean(w.Address), PreviousAddress: r.secrets.Clean(w.PreviousAddress), Module: r.secrets.Clean(w.Module),
		Mode: w.Mode, Type: w.Type, Name: w.Name, Provider: w.Provider, Deposed: w.Deposed,
		Actions: w.Change.Actions, Class: class, CreateFirst: createFirst, Reason: w.Reason, ReplacePaths: r.paths(w.Change.ReplacePaths),
	}
	if imported {
		c.Importing = r.secrets.Clean(w.Change.Importing.ID)
	}
	var err error
	c.Attributes, c.AttributesLeftOut, err = r.attributes(&w.Change, class.destructive())
	*list = append(*list, c)
	return err
}

// evict makes room for a destructive change among the listed ones by leaving out a harmless one, and reports whether
// there is room. What is left out is counted, but for drift, which has its own total.
func (r *reader) evict(list *[]Change, class Class) bool {
	r.view.Truncated = true
	if list == &r.view.Changes {
		r.view.LeftOut++
	}
	if !class.destructive() {
		return false
	}
	for i, c := range *list {
		if !c.Class.destructive() {
			(*list)[i] = (*list)[len(*list)-1]
			*list = (*list)[:len(*list)-1]
			return true
		}
	}
	return false
}

// digest notes what an approval of this change permits. The address is taken as it is, secrets included: the digest
// is compared, never shown.
func (r *reader) digest(w *wireResource, class Class) {
	if class == Noop || class == Read {
		return
	}
	parts := []string{w.Address, w.Deposed, w.PreviousAddress, strings.Join(w.Change.Actions, "+"), ""}
	if w.Change.Importing != nil {
		parts[4] = "import " + w.Change.Importing.ID
	}
	for i, p := range parts {
		parts[i] = strconv.Quote(p)
	}
	r.lines = append(r.lines, strings.Join(parts, " ")+"\n")
}

func (r *reader) attributes(c *wireChange, destructive bool) ([]Attribute, int, error) {
	s, err := c.sides()
	if err != nil {
		return nil, 0, err
	}
	d := &differ{secrets: r.secrets, budget: &r.low, out: []Attribute{}}
	if destructive {
		d.budget = &r.high
	}
	d.walk("", s, 0)
	r.view.Truncated = r.view.Truncated || d.leftOut > 0
	return d.out, d.leftOut, nil
}

func (r *reader) paths(paths [][]any) []string {
	var out []string
	for _, p := range paths {
		text := ""
		for _, step := range p {
			switch s := step.(type) {
			case string:
				text = joinKey(text, s)
			case json.Number:
				text += "[" + s.String() + "]"
			}
		}
		out = append(out, r.secrets.Clean(text))
	}
	return out
}

func (r *reader) output(dec *json.Decoder, name string) error {
	var w wireChange
	if err := dec.Decode(&w); err != nil {
		return err
	}
	class, _ := classify(w.Actions, false, false)
	if class == Noop {
		return nil
	}
	r.view.Outputs++
	o := OutputChange{Name: r.secrets.Clean(name), Class: class}
	o.Sensitive = string(w.BeforeSensitive) == "true" || string(w.AfterSensitive) == "true"
	var err error
	o.Attributes, o.AttributesLeftOut, err = r.attributes(&w, false)
	r.view.OutputChanges = append(r.view.OutputChanges, o)
	return err
}

func (r *reader) check(dec *json.Decoder) error {
	var w struct {
		Address struct {
			Display string `json:"to_display"`
		} `json:"address"`
		Status    string `json:"status"`
		Instances []struct {
			Problems []struct {
				Message string `json:"message"`
			} `json:"problems"`
		} `json:"instances"`
	}
	if err := dec.Decode(&w); err != nil {
		return err
	}
	const maxChecks, maxMessages = 100, 10
	if w.Status != "fail" && w.Status != "error" {
		return nil
	}
	if len(r.view.Checks) == maxChecks {
		r.view.Truncated = true
		return nil
	}
	c := Check{Address: r.secrets.Clean(w.Address.Display), Status: w.Status, Messages: []string{}}
	for _, in := range w.Instances {
		for _, p := range in.Problems {
			if len(c.Messages) == maxMessages {
				r.view.Truncated = true
				break
			}
			text := r.secrets.Clean(p.Message)
			if len(text) > MaxValueBytes {
				text = truncate(text)
			}
			c.Messages = append(c.Messages, text)
		}
	}
	r.view.Checks = append(r.view.Checks, c)
	return nil
}
