package broker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
)

// Limits of one delivery.
const (
	chunksAtOnce = 64
	bytesAtOnce  = 1 << 20
)

// logs keeps an attempt's log on the disk, one chunk a line, and delivers it in order until all is acknowledged. Its
// memory is one number per chunk.
type logs struct {
	platform *platform.Client
	task     string
	attempt  string
	policy   api.AgentPolicy
	now      func() time.Time

	mu      sync.Mutex
	file    *os.File
	starts  []int64 // where each chunk's line begins
	size    int64   // of the file
	text    int64   // bytes of text so far
	full    bool
	stage   string
	acked   int64         // chunks the server has
	dead    error         // why no more is delivered
	changed chan struct{} // closed and replaced at every change
}

func openLogs(path string, p *platform.Client, w api.Work, policy api.AgentPolicy, now func() time.Time) (*logs, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of an attempt: %w", err)
	}
	l := &logs{platform: p, task: w.Task, attempt: w.Attempt, policy: policy, now: now, file: f, changed: make(chan struct{})}
	if err := l.load(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// load finds the chunks that an earlier life wrote. A last line that was not finished is cut off.
func (l *logs) load() error {
	in := bufio.NewReaderSize(l.file, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				err = l.file.Truncate(l.size)
			} else if errors.Is(err, io.EOF) {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("read the log of an attempt: %w", err)
			}
			return nil
		}
		l.starts = append(l.starts, l.size)
		l.size += int64(len(line))
		l.text += int64(len(line))
	}
}

func (l *logs) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// add appends text, in chunks of what the server takes.
func (l *logs) add(stage, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stage = stage
	if l.full {
		return nil
	}
	if l.policy.LogTotalBytes > 0 && l.text+int64(len(text)) > l.policy.LogTotalBytes {
		l.full = true
		text = fmt.Sprintf("\n[log cut: more than %d bytes; the work goes on]\n", l.policy.LogTotalBytes)
	}
	most := max(l.policy.LogChunkBytes, 1024)
	for len(text) > 0 {
		n := min(len(text), most)
		for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		if n == 0 {
			n = min(len(text), most)
		}
		if err := l.append(stage, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	l.announce()
	return nil
}

func (l *logs) append(stage, text string) error {
	line, err := json.Marshal(api.AttemptLog{Seq: int64(len(l.starts)), Stage: stage, At: l.now().UTC(), Text: text})
	if err != nil {
		return fmt.Errorf("keep the log of an attempt: %w", err)
	}
	line = append(line, '\n')
	if _, err := l.file.Write(line); err != nil {
		return fmt.Errorf("keep the log of an attempt: %w", err)
	}
	l.starts = append(l.starts, l.size)
	l.size += int64(len(line))
	l.text += int64(len(text))
	return nil
}

// say appends a line of the broker's own, in the stage that runs.
func (l *logs) say(text string) {
	l.mu.Lock()
	stage := l.stage
	l.mu.Unlock()
	_ = l.add(stage, strings.TrimRight(text, "\n")+"\n") // a full disk shows at the next add, too
}

// run delivers until ctx is done or the server wants no more.
func (l *logs) run(ctx context.Context) {
	for {
		l.mu.Lock()
		pending, changed := int64(len(l.starts)) > l.acked, l.changed
		l.mu.Unlock()
		if !pending {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			continue
		}
		err := l.platform.Until(ctx, "deliver the log", l.deliver)
		if err != nil {
			l.mu.Lock()
			l.dead = err
			l.announce()
			l.mu.Unlock()
			return
		}
	}
}

// deliver sends the first chunks that are not acknowledged.
func (l *logs) deliver(ctx context.Context) error {
	chunks, err := l.read()
	if err != nil {
		return err
	}
	ack, err := l.platform.Logs(ctx, l.task, api.AppendLogs{Attempt: l.attempt, Chunks: chunks})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The server may have more than was just sent, from an earlier life, but not more than there is.
	next := min(ack.Next, int64(len(l.starts)))
	if next <= l.acked {
		return fmt.Errorf("the server took none of the chunks from %d on", l.acked)
	}
	l.acked = next
	l.announce()
	return nil
}

func (l *logs) read() ([]api.AttemptLog, error) {
	l.mu.Lock()
	from, to := l.acked, int64(len(l.starts))
	begin := l.starts[from]
	end := begin
	n := from
	for n < to && n-from < chunksAtOnce && (n == from || end-begin < bytesAtOnce) {
		n++
		end = l.size
		if n < to {
			end = l.starts[n]
		}
	}
	l.mu.Unlock()
	text := make([]byte, end-begin)
	if _, err := l.file.ReadAt(text, begin); err != nil {
		return nil, fmt.Errorf("read the log of an attempt: %w", err)
	}
	var chunks []api.AttemptLog
	for line := range bytes.SplitSeq(bytes.TrimRight(text, "\n"), []byte{'\n'}) {
		var c api.AttemptLog
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("read the log of an attempt: %w", err)
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// flush waits until everything is acknowledged. Who runs run has to go on doing so.
func (l *logs) flush(ctx context.Context) error {
	for {
		l.mu.Lock()
		done, dead, changed := l.acked >= int64(len(l.starts)), l.dead, l.changed
		l.mu.Unlock()
		switch {
		case done:
			return nil
		case dead != nil:
			return dead
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}
