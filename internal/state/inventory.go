package state

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// The limits of an Inventory. A document may hold more; the list then says that it is not whole.
const (
	MaxResources    = 20_000
	maxAddressBytes = 1024    // an index of PostgreSQL takes no longer text
	maxListedBytes  = 4 << 20 // of all texts of one list
)

// The modes of a resource.
const (
	ModeManaged = "managed"
	ModeData    = "data"
)

// Resource is one resource of a document, by name only: its values are not here.
type Resource struct {
	Address   string // of the resource in its module, without the index of an instance
	Module    string // address of the module instance, "" for the root
	Mode      string // managed or data
	Type      string
	Name      string
	Provider  string // source address, such as registry.opentofu.org/hashicorp/aws
	Instances int64  // what a replacement left (deposed) counts too
}

// Inventory is the resources of a document, as they stand in it. The one of a document that OpenTofu encrypted is empty.
type Inventory struct {
	Truncated bool   // there are more, or some whose names cannot be listed
	Hash      string // of the list; lists with equal ones are equal

	found []noted
	texts []byte // of found
}

// noted is a resource as a scanner notes it. It has no pointers, so that thousands of them are no work for the
// garbage collector.
type noted struct {
	module, mode, kind, name, provider span
	instances                          int64
}

// span is a piece of the texts of an Inventory.
type span struct{ at, length uint32 }

func (l *Inventory) text(s span) string { return string(l.texts[s.at : s.at+s.length]) }

// Resources are those of the document by address. One that stands in the document more than once is one.
func (l *Inventory) Resources() []Resource {
	rs := make([]Resource, 0, len(l.found))
	for _, n := range l.found {
		r := Resource{
			Module: l.text(n.module), Mode: l.text(n.mode), Type: l.text(n.kind), Name: l.text(n.name), Provider: l.text(n.provider), Instances: n.instances,
		}
		r.Address = resourceAddress(r.Module, r.Mode, r.Type, r.Name)
		rs = append(rs, r)
	}
	slices.SortStableFunc(rs, func(a, b Resource) int { return cmp.Compare(a.Address, b.Address) })
	unique := rs[:0]
	for _, r := range rs {
		if n := len(unique); n > 0 && unique[n-1].Address == r.Address {
			unique[n-1].Instances += r.Instances
			continue
		}
		unique = append(unique, r)
	}
	return unique
}

// part is a field of a resource that is listed.
type part int

const (
	partNone part = iota
	partModule
	partMode
	partType
	partName
	partProvider
	partInstances
)

func partOf(raw []byte) part {
	switch string(raw) {
	case `"module"`:
		return partModule
	case `"mode"`:
		return partMode
	case `"type"`:
		return partType
	case `"name"`:
		return partName
	case `"provider"`:
		return partProvider
	case `"instances"`:
		return partInstances
	}
	return partNone
}

// inventory makes an Inventory of what a scanner comes upon. It is on the way of every save, so it does no more with a
// resource than to take it down: the list is sorted where it turns out to be another one.
type inventory struct {
	out   Inventory
	now   noted
	odd   bool            // now has a name that cannot be listed
	known map[string]span // texts by how they are written: most of them come again
	bytes int             // of texts, and of how they are written
	sum   hash.Hash
	line  []byte
}

func (l *inventory) begin() { l.now, l.odd = noted{}, false }

func (l *inventory) instance() { l.now.instances++ }

func (l *inventory) value(p part, raw []byte) {
	if p == partInstances || string(raw) == "null" {
		return
	}
	text, ok := span{}, false
	if p == partName {
		text, ok = l.take(p, raw)
	} else if text, ok = l.known[string(raw)]; !ok {
		if text, ok = l.take(p, raw); ok {
			if l.known == nil {
				l.known = map[string]span{}
			}
			l.known[string(raw)] = text
		}
	}
	switch {
	case !ok:
		l.odd = true
	case p == partModule:
		l.now.module = text
	case p == partMode:
		l.now.mode = text
	case p == partType:
		l.now.kind = text
	case p == partName:
		l.now.name = text
	case p == partProvider:
		l.now.provider = text
	}
}

// take adds a text to those of the list, unless it is no text, or too long, or too much.
func (l *inventory) take(p part, raw []byte) (span, bool) {
	text, ok := unquote(raw)
	if !ok || len(text) > maxAddressBytes || l.bytes+len(raw)+len(text) > maxListedBytes {
		return span{}, false
	}
	if p == partProvider {
		text = providerSource(text)
	}
	l.bytes += len(raw) + len(text)
	s := span{at: uint32(len(l.out.texts)), length: uint32(len(text))} //nolint:gosec // bounded by maxListedBytes
	l.out.texts = append(l.out.texts, text...)
	return s, true
}

func (l *inventory) end() {
	r := &l.now
	mode := l.out.texts[r.mode.at : r.mode.at+r.mode.length]
	if l.odd || r.kind.length == 0 || r.name.length == 0 || string(mode) != ModeManaged && string(mode) != ModeData ||
		int(r.module.length+r.kind.length+r.name.length) > maxAddressBytes-len(".data..") || len(l.out.found) == MaxResources {
		l.out.Truncated = true
		return
	}
	l.out.found = append(l.out.found, *r)
	l.line = l.line[:0]
	for _, s := range [...]span{r.module, r.mode, r.kind, r.name, r.provider} {
		l.line = append(append(l.line, l.out.texts[s.at:s.at+s.length]...), 0) // unquote lets no NUL pass
	}
	l.write(append(strconv.AppendInt(l.line, r.instances, 10), 0))
}

func (l *inventory) write(p []byte) {
	if l.sum == nil {
		l.sum = sha256.New()
	}
	l.sum.Write(p)
}

func (l *inventory) finish() *Inventory {
	if l.out.Truncated {
		l.write([]byte("and more"))
	} else {
		l.write(nil)
	}
	l.out.Hash = fmt.Sprintf("%x", l.sum.Sum(nil)[:16])
	return &l.out
}

func resourceAddress(module, mode, kind, name string) string {
	var b strings.Builder
	if module != "" {
		b.WriteString(module)
		b.WriteByte('.')
	}
	if mode == ModeData {
		b.WriteString("data.")
	}
	b.WriteString(kind)
	b.WriteByte('.')
	b.WriteString(name)
	return b.String()
}

// providerSource is the source address in what a document says of a provider's configuration: in
// module.a.provider["registry.opentofu.org/hashicorp/aws"].west, or in the provider.aws of older tools.
func providerSource(text string) string {
	if _, after, found := strings.Cut(text, `provider["`); found {
		source, _, _ := strings.Cut(after, `"]`)
		return source
	}
	if i := strings.LastIndex(text, "provider."); i >= 0 {
		source, _, _ := strings.Cut(text[i+len("provider."):], ".")
		return source
	}
	return text
}
