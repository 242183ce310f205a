package tofu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxLineBytes is the longest line of -json that is read whole. Of a longer one the beginning is kept.
const MaxLineBytes = 1 << 20

// Text is the type of a line that is not one of -json: a warning about the tool's configuration, a crash.
const Text = "text"

// Line is one line that a command with -json printed.
type Line struct {
	Level      string      // info, warn, error; empty for Text
	Message    string      // the tool's own sentence
	Type       string      // version, planned_change, apply_start, diagnostic, …, or Text
	Resource   string      // address, where the line is about one
	Action     string      // create, update, delete, replace, read, move, import, remove, noop
	Elapsed    int         // seconds, of apply_progress and apply_complete
	Changes    *Summary    // of change_summary
	Diagnostic *Diagnostic // of diagnostic
	Cut        bool        // the line was longer than MaxLineBytes
}

// Summary is the tool's own count. It is for progress: what a plan does is read from `show -json` alone, since the
// line miscounts forgotten resources.
type Summary struct {
	Add       int    `json:"add"`
	Change    int    `json:"change"`
	Import    int    `json:"import"`
	Remove    int    `json:"remove"`
	Forget    int    `json:"forget"`
	Operation string `json:"operation"` // plan, apply, destroy
}

type wire struct {
	Level   string `json:"@level"`
	Message string `json:"@message"`
	Type    string `json:"type"`
	Hook    struct {
		Resource wireResource `json:"resource"`
		Action   string       `json:"action"`
		Elapsed  float64      `json:"elapsed_seconds"`
	} `json:"hook"`
	Change struct {
		Resource wireResource `json:"resource"`
		Action   string       `json:"action"`
	} `json:"change"`
	Changes    *Summary    `json:"changes"`
	Diagnostic *Diagnostic `json:"diagnostic"`
}

type wireResource struct {
	Addr string `json:"addr"`
}

// ParseLine reads one line. It never fails: what is not a line of -json is Text, and of a line whose payload has an
// unexpected shape the message is kept.
func ParseLine(raw []byte) Line {
	raw = bytes.TrimRight(raw, "\r\n")
	text := Line{Type: Text, Message: string(raw)}
	if len(raw) == 0 || raw[0] != '{' {
		return text
	}
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		w = header(raw)
	}
	if w.Type == "" {
		return text
	}
	l := Line{
		Level: w.Level, Message: w.Message, Type: w.Type, Resource: w.Hook.Resource.Addr, Action: w.Hook.Action,
		Elapsed: int(min(max(w.Hook.Elapsed, 0), 1e9)), Changes: w.Changes, Diagnostic: w.Diagnostic,
	}
	if l.Resource == "" {
		l.Resource, l.Action = w.Change.Resource.Addr, w.Change.Action
	}
	return l
}

// header reads the three strings every line has from one that is cut off or has a payload of another shape.
func header(raw []byte) (w wire) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return w
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return w
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return w
		}
		var s string
		if json.Unmarshal(value, &s) != nil {
			continue
		}
		switch key {
		case "@level":
			w.Level = s
		case "@message":
			w.Message = s
		case "type":
			w.Type = s
		}
	}
	return w
}

// Text is the line for a log: one line of text, several for a diagnostic; without a newline at its end.
func (l Line) Text() string {
	if l.Diagnostic != nil {
		return l.Diagnostic.Text()
	}
	s := strings.Trim(l.Message, "\r\n")
	if l.Type == Text {
		s = strings.TrimRight(l.Message, "\r\n")
	}
	if l.Cut {
		s += fmt.Sprintf(" [line cut at %d bytes]", MaxLineBytes)
	}
	return s
}

// Decoder reads the lines of a command as they come. Its memory is bounded by MaxLineBytes.
type Decoder struct {
	in  *bufio.Reader
	buf []byte
}

// NewDecoder makes a Decoder of what in gives.
func NewDecoder(in io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(in, 64*1024)} }

// Next gives the next line, also a last one that has no newline. At the end it gives io.EOF, and any other error
// of reading as it is.
func (d *Decoder) Next() (Line, error) {
	d.buf = d.buf[:0]
	cut := false
	for {
		part, err := d.in.ReadSlice('\n')
		if room := MaxLineBytes - len(d.buf); len(part) > room {
			cut = cut || len(bytes.TrimRight(part, "\r\n")) > room
			part = part[:room]
		}
		d.buf = append(d.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(d.buf) == 0:
			return Line{}, err
		case err != nil && !errors.Is(err, io.EOF):
			return Line{}, fmt.Errorf("read the command's output: %w", err)
		}
		l := ParseLine(d.buf)
		l.Cut = cut
		return l, nil
	}
}
