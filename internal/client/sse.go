package client

import (
	"bufio"
	"bytes"
	"io"
	"iter"
)

// maxMessage bounds one message of an event stream, in bytes.
const maxMessage = 1 << 20

// message is one message of a text/event-stream: https://html.spec.whatwg.org/multipage/server-sent-events.html
type message struct {
	event string // "message" unless the stream says otherwise
	data  []byte
}

// messages reads a stream to its end. A clean end yields nothing more; what has not been finished by an empty line
// then is dropped, as the rule is.
func messages(r io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), maxMessage)
		var m message
		has := false
		for lines.Scan() {
			line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
			if len(line) == 0 {
				if has && !yield(m.named(), nil) {
					return
				}
				m, has = message{}, false
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				m.event = string(value)
			case "data":
				if has {
					m.data = append(m.data, '\n')
				}
				m.data, has = append(m.data, value...), true
				if len(m.data) > maxMessage {
					yield(message{}, bufio.ErrTooLong)
					return
				}
			}
		}
		if err := lines.Err(); err != nil {
			yield(message{}, err)
		}
	}
}

func (m message) named() message {
	if m.event == "" {
		m.event = "message"
	}
	return m
}
