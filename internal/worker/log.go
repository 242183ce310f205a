package worker

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/redact"
)

// When a log is sent on: often enough for somebody who watches, seldom enough to cost nothing.
const (
	flushAfter = 200 * time.Millisecond
	flushBytes = 64 << 10
)

// logger carries an attempt's log to the broker: secrets removed, then long lines cut, then in batches. What could not
// be sent is dropped, since then the connection is gone and the attempt about to end.
type logger struct {
	conn  *link.Conn
	limit int // bytes of a line

	mu      sync.Mutex
	set     *redact.Set
	remover *redact.Remover
	cutter  *redact.LineCutter
	stage   string
	pending []byte
	timer   *time.Timer
}

func newLogger(conn *link.Conn, limit int, set *redact.Set) *logger {
	l := &logger{conn: conn, limit: limit, set: set}
	l.open()
	return l
}

func (l *logger) open() {
	l.cutter = redact.NewLineCutter(batch{l}, l.limit)
	l.remover = l.set.Remover(l.cutter)
}

// Write takes text of the present stage.
func (l *logger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remover.Write(p)
}

// line takes one line, or several, without the newline at its end.
func (l *logger) line(text string) {
	_, _ = l.Write([]byte(text + "\n"))
}

// begin ends the present stage's log and begins the next one's.
func (l *logger) begin(stage string) {
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stage = stage
}

// watch makes the rest of the log be cleaned of set.
func (l *logger) watch(set *redact.Set) {
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = set
	l.open()
}

// flush sends everything, the beginning of a possible secret at the very end included.
func (l *logger) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.remover.Close()
	_ = l.cutter.Close()
	l.open()
	l.send(len(l.pending))
}

// batch is the end of the chain; it is called with the lock held.
type batch struct{ *logger }

func (b batch) Write(p []byte) (int, error) {
	b.pending = append(b.pending, p...)
	for len(b.pending) >= flushBytes {
		b.send(wholeCharacters(b.pending[:flushBytes]))
	}
	if len(b.pending) > 0 && b.timer == nil {
		b.timer = time.AfterFunc(flushAfter, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.send(wholeCharacters(b.pending))
		})
	}
	return len(p), nil
}

// send sends the first n pending bytes. A character that is none becomes the mark for it; a NUL, which the store
// cannot keep, too.
func (l *logger) send(n int) {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if n == 0 {
		return
	}
	text := bytes.ToValidUTF8(l.pending[:n], []byte("\uFFFD"))
	text = bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
	_ = l.conn.Send(link.Message{Log: &link.Log{Stage: l.stage, Text: string(text)}})
	l.pending = append(l.pending[:0], l.pending[n:]...)
}

// wholeCharacters is len(b) without a last character of which only the beginning is there.
func wholeCharacters(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) && i > 0 {
				return i
			}
			break
		}
	}
	return len(b)
}
