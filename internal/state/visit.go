package state

import (
	"errors"
	"hash/maphash"
	"io"

	"holdfast.dev/holdfast/internal/fault"
)

// maxInstances is how many instances and outputs of one document are looked at: a sum of each is held.
const maxInstances = 200_000

// Opener opens a stored document, once more with each call. What it gives has been through a Scanner; it must fail
// where the bytes are not the ones that were stored.
type Opener func() (io.ReadCloser, error)

// header is what a document says of a resource.
type header struct {
	module, mode, kind, name, provider string
}

func (h header) address() string { return resourceAddress(h.module, h.mode, h.kind, h.name) }

// item is an instance or an output, as it passes by. It is overwritten by the next one.
type item struct {
	ordinal int    // within the document, those of outputs included
	sum     uint64 // of what is compared of it
	value   *tape  // of an instance, its attributes; of an output, its value
	about   *tape  // an object: the other fields that are looked at
	marked  bool   // some attributes are sensitive
}

// visitor is told what is in a document.
type visitor struct {
	output   func(name string, i *item) error
	instance func(i *item) error  // before the resource it is of
	resource func(h header) error // after its instances
}

// visit reads a document and tells of it.
func visit(open Opener, seed maphash.Seed, v visitor) (err error) {
	r, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w := &walk{lexer: newLexer(r, seed), visitor: v, item: item{value: &tape{}, about: &tape{}}}
	if err := w.members(w.field); err != nil {
		return err
	}
	if w.peek() != 0 || !errors.Is(w.err, io.EOF) {
		return w.fault()
	}
	return nil
}

type walk struct {
	*lexer
	visitor
	item item
	skip tape // what is passed over: nothing of it is held
}

func (w *walk) field(key []byte, _ uint64) error {
	switch f := fieldOf(string(key)); {
	case f == fieldOutputs && w.peek() == '{':
		return w.members(w.outputOf)
	case f == fieldResources && w.peek() == '[':
		return w.elements(w.resourceOf)
	}
	return w.pass()
}

// pass reads a value and holds nothing of it.
func (w *walk) pass() error {
	w.skip.over = true
	_, err := w.value(&w.skip, nil, 0)
	return err
}

// next begins an instance or an output.
func (w *walk) next() error {
	i := &w.item
	if i.ordinal++; i.ordinal > maxInstances {
		return fault.New(fault.Unprocessable, "too_many_instances", "The document has more than %d instances and outputs, the most that are compared or shown one by one.", maxInstances).
			WithHint("Download it instead: holdfast state pull.")
	}
	i.value.reset()
	i.about.reset()
	i.about.add('{', nil, 0)
	i.sum, i.marked = 0, false
	return nil
}

func (w *walk) outputOf(key []byte, _ uint64) error {
	name := string(key)
	if err := w.next(); err != nil {
		return err
	}
	if w.peek() != '{' {
		return w.pass()
	}
	err := w.members(func(key []byte, sum uint64) error {
		switch string(key) {
		case "value":
			return w.into(w.item.value, key, sum, 0)
		case "sensitive":
			if w.peek() == 'f' { // as good as no field
				return w.pass()
			}
			fallthrough
		case "type":
			return w.into(w.item.about, key, sum, 1)
		}
		return w.pass()
	})
	if err != nil {
		return err
	}
	w.item.about.close()
	return w.output(name, &w.item)
}

// into reads a field that counts for the sum. Null is as good as no field.
func (w *walk) into(t *tape, key []byte, keySum uint64, depth int) error {
	sum, err := w.value(t, key, depth)
	if err == nil && sum != nullSum {
		w.item.sum += w.combine(keySum, sum)
	}
	return err
}

func (w *walk) resourceOf() error {
	if w.peek() != '{' {
		return w.pass()
	}
	var h header
	err := w.members(func(key []byte, _ uint64) error {
		to := map[string]*string{"module": &h.module, "mode": &h.mode, "type": &h.kind, "name": &h.name, "provider": &h.provider}[string(key)]
		switch {
		case to != nil && w.peek() == '"':
			text, _, _, err := w.string(nil, maxAddressBytes)
			*to = string(text)
			return err
		case string(key) == "instances" && w.peek() == '[':
			return w.elements(w.instanceOf)
		}
		return w.pass()
	})
	if err != nil {
		return err
	}
	h.provider = providerSource(h.provider)
	return w.resource(h)
}

func (w *walk) instanceOf() error {
	if err := w.next(); err != nil {
		return err
	}
	if w.peek() != '{' {
		return w.pass()
	}
	err := w.members(func(key []byte, sum uint64) error {
		switch string(key) {
		case "attributes", "attributes_flat":
			if w.peek() == '{' && len(w.item.value.nodes) == 0 {
				return w.into(w.item.value, key, sum, 0)
			}
		case "sensitive_attributes":
			v, err := w.value(w.item.about, key, 1)
			if w.item.marked = v != nullSum && v != w.combine('[', 0); w.item.marked {
				w.item.sum += w.combine(sum, v)
			}
			return err
		case "status", "schema_version":
			return w.into(w.item.about, key, sum, 1)
		case "index_key", "deposed":
			_, err := w.value(w.item.about, key, 1)
			return err
		}
		return w.pass()
	})
	if err != nil {
		return err
	}
	w.item.about.close()
	return w.instance(&w.item)
}

// close ends the object that the first node began.
func (t *tape) close() {
	if len(t.nodes) > 0 {
		t.nodes[0].end = int32(len(t.nodes)) //nolint:gosec // bounded by tapeNodes
	}
}
