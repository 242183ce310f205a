package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/executor"
)

// progressEvery is how often the broker hears how far a command is.
const progressEvery = time.Second

// errorsKept bounds what is remembered of a command's errors for the result's message.
const errorsKept = 3

// spoken is what a command said.
type spoken struct {
	executor.Result
	errors   []string // the first of them
	progress tofu.Progress
}

// why is one sentence about a command that did not succeed.
func (s *spoken) why(command string) string {
	text := fmt.Sprintf("`%s` %s", command, s.Exit)
	switch {
	case s.TimedOut:
		text += " after it had exceeded its time limit"
	case s.Interrupted:
		text += " after it was interrupted"
	}
	if len(s.errors) > 0 {
		text += ": " + strings.Join(s.errors, "; ")
	}
	return text + "."
}

// speaking runs a command whose output is its log. With lines it is made of -json lines, which see is told of.
func (a *attempt) speaking(ctx context.Context, args []string, lines bool, see func(tofu.Line)) (*spoken, error) {
	out, err := scratch(a.private)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	said := &spoken{}
	consume := a.text(said)
	if lines {
		consume = a.lines(said, see)
	}
	err = a.run(ctx, args, out, out, out, consume, &said.Result)
	return said, err
}

// printing runs a command that prints one document, which is returned at its start; close it. What it says besides is
// its log.
func (a *attempt) printing(ctx context.Context, args []string) (*os.File, *spoken, error) {
	doc, err := scratch(a.private)
	if err != nil {
		return nil, nil, err
	}
	side, err := scratch(a.private)
	if err != nil {
		_ = doc.Close()
		return nil, nil, err
	}
	defer func() { _ = side.Close() }()
	said := &spoken{}
	err = a.run(ctx, args, doc, side, side, a.text(said), &said.Result)
	if err == nil {
		_, err = doc.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = doc.Close()
		return nil, nil, err
	}
	return doc, said, nil
}

// run runs a command while its output is followed, and returns when both have ended.
func (a *attempt) run(ctx context.Context, args []string, stdout, stderr, followed *os.File, consume func(io.Reader) error, r *executor.Result) error {
	ended := make(chan struct{})
	f := follow(followed, ended)
	defer f.Close()
	consumed := make(chan error, 1)
	go func() { consumed <- consume(f) }()
	var err error
	*r, err = a.worker.exec.Run(ctx, a.limits(executor.Command{
		Path: a.worker.TofuBin, Args: args, Dir: a.module, Env: a.env, Stdout: stdout, Stderr: stderr,
	}))
	close(ended)
	a.ran += r.Took
	return errors.Join(err, <-consumed)
}

// text carries plain text to the log, and remembers where it says Error.
func (a *attempt) text(said *spoken) func(io.Reader) error {
	return func(in io.Reader) error {
		_, err := io.Copy(io.MultiWriter(a.log, &errorFinder{said: said}), in)
		return err
	}
}

// lines carries the text of -json lines to the log.
func (a *attempt) lines(said *spoken, see func(tofu.Line)) func(io.Reader) error {
	return func(in io.Reader) error {
		dec := tofu.NewDecoder(in)
		var told time.Time
		for {
			l, err := dec.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if text := l.Text(); text != "" && l.Type != "version" {
				a.log.line(text)
			}
			if d := l.Diagnostic; d != nil && d.Severity == "error" {
				said.remember(sentence(d))
			}
			said.progress.See(l)
			if see != nil {
				see(l)
			}
			// What is planned is all said at once, before anything is done.
			if now := a.worker.now(); l.Resource != "" && l.Type != "planned_change" && now.Sub(told) >= progressEvery {
				told = now
				a.tellProgress(said.progress)
			}
		}
	}
}

func (a *attempt) tellProgress(p tofu.Progress) {
	text := fmt.Sprintf("%d of %d done, %d running", p.Done, p.Planned, p.Running)
	stage := link.StageApply
	if !a.Apply {
		stage, text = link.StagePlan, fmt.Sprintf("%d read", p.Refreshed)
	}
	_ = a.session.conn.Send(link.Message{Stage: &link.Stage{Stage: stage, Progress: text}}) // the next Send fails as well
}

func (s *spoken) remember(text string) {
	if len(s.errors) < errorsKept {
		s.errors = append(s.errors, text)
	}
}

func sentence(d *tofu.Diagnostic) string {
	text := strings.Join(strings.Fields(d.Summary), " ")
	if d.Range != nil {
		text += fmt.Sprintf(" (%s:%d)", d.Range.Filename, d.Range.Start.Line)
	}
	if detail := strings.Join(strings.Fields(d.Detail), " "); detail != "" {
		const most = 300
		if len(detail) > most {
			detail = strings.ToValidUTF8(detail[:most], "") + "…"
		}
		text += ": " + detail
	}
	return strings.TrimSuffix(text, ".")
}

// errorFinder looks for lines that begin with Error in plain text, and what is said below them. Its memory is one line.
type errorFinder struct {
	said *spoken
	line []byte
	open bool // the last error's text goes on
}

// maxErrorText bounds one error's text.
const maxErrorText = 400

func (e *errorFinder) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != '\n' {
			if len(e.line) < maxErrorText {
				e.line = append(e.line, c)
			}
			continue
		}
		e.take(strings.TrimSpace(strings.ToValidUTF8(strings.TrimLeft(string(e.line), "│ "), "")))
		e.line = e.line[:0]
	}
	return len(p), nil
}

func (e *errorFinder) take(line string) {
	last := len(e.said.errors) - 1
	switch text, begins := strings.CutPrefix(line, "Error: "); {
	case begins:
		e.open = len(e.said.errors) < errorsKept
		e.said.remember(text)
	case strings.HasPrefix(line, "Warning: "):
		e.open = false
	case line == "" || !e.open:
	case len(e.said.errors[last])+len(line) > maxErrorText:
		e.said.errors[last] += " …"
		e.open = false
	default:
		e.said.errors[last] += " " + line
	}
}
