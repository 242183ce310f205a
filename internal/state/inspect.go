package state

import (
	"cmp"
	"encoding/json"
	"slices"

	"holdfast.dev/holdfast/internal/plan"
)

// Output is one output of a document. A sensitive one has no value.
type Output struct {
	Name      string
	Type      string // JSON, as the tool wrote it; "" where it wrote none
	Value     string // JSON; "" where it is not shown
	Sensitive bool
	Cut       bool // the value is longer than what is shown of it, which is a text then
}

// Outputs are the outputs of a document, by name, without what is sensitive. more is how many there are besides.
func Outputs(open Opener) (list []Output, more int, err error) {
	x := newExaminer()
	wanted := map[int32]bool{}
	err = x.survey(open, func(_ uint64, _ string, p place) {
		switch {
		case !p.output:
		case len(wanted) == MaxOutputs:
			more++
		default:
			wanted[p.ordinal] = true
		}
	})
	if err == nil {
		err = x.known.Compile()
	}
	if err != nil {
		return nil, 0, err
	}
	err = x.pick(open, func(n int) bool { return wanted[int32(n)] }, func(c *captured) { //nolint:gosec // at most maxInstances
		v := x.outputValue(c)
		list = append(list, Output{
			Name: x.known.Clean(c.name), Type: c.aboutText("type"), Value: v.text, Sensitive: v.sensitive, Cut: v.cut,
		})
	})
	slices.SortFunc(list, func(a, b Output) int { return cmp.Compare(a.Name, b.Name) })
	return list, more, err
}

// Instance is one instance of a resource with its values, but for those that are sensitive.
type Instance struct {
	Address    string // with the index
	Deposed    string // key of what an unfinished replacement left
	Status     string // tainted, or ""
	Attributes []plan.Attribute
	LeftOut    int // attributes beyond those listed; at least one where all of them could not be held
}

// Instances are those of one resource of a document, in its order. more is how many there are besides; the resource has
// no name where the document has no such address.
func Instances(open Opener, address string) (r Resource, list []Instance, more int, err error) {
	x := newExaminer()
	wanted := map[int32]bool{}
	err = x.survey(open, func(_ uint64, resource string, p place) {
		switch {
		case p.output || resource != address:
		case len(wanted) == MaxChanges:
			more++
		default:
			wanted[p.ordinal] = true
		}
	})
	if err == nil {
		err = x.known.Compile()
	}
	if err != nil || len(wanted) == 0 {
		return r, nil, 0, err
	}
	err = x.pick(open, func(n int) bool { return wanted[int32(n)] }, func(c *captured) { //nolint:gosec // at most maxInstances
		h := c.header
		r = Resource{Address: h.address(), Module: h.module, Mode: h.mode, Type: h.kind, Name: h.name, Provider: h.provider}
		i := Instance{Address: x.known.Clean(c.address()), Deposed: c.about.str(c.about.field(0, "deposed"))}
		_ = json.Unmarshal([]byte(cmp.Or(c.aboutText("status"), `""`)), &i.Status) // what is no text is no status
		if i.LeftOut = 1; c.whole() {
			i.Attributes, i.LeftOut = x.differences(nil, c)
		}
		list = append(list, i)
	})
	r.Instances = int64(len(list) + more)
	return r, list, more, err
}
