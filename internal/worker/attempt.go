package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/tofu"
	"holdfast.dev/holdfast/internal/worker/internal/executor"
)

// killNotBefore is how long a command that exceeds its limit runs at least before it is killed: a kill loses what is
// being created. Source: reference/managed-state.txt, the run scripts.
const killNotBefore = 5 * time.Minute

// afterCancel bounds what is still done of an attempt that was cancelled after its apply had succeeded.
const afterCancel = time.Minute

// failure is an end that was no success.
type failure struct {
	class, message string
	err            error
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.message + ": " + f.err.Error()
	}
	return f.message
}

func (f *failure) Unwrap() error { return f.err }

func fail(class, format string, args ...any) error {
	return &failure{class: class, message: fmt.Sprintf(format, args...)}
}

// blame makes a failure of err, unless it is one already.
func blame(class, message string, err error) error {
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	return &failure{class, message, err}
}

// attempt is one execution of a task.
type attempt struct {
	worker *Worker
	link.Begin
	session *session
	dir     string // the attempt's
	module  string // where the tool runs
	private string // output files
	env     []string
	forward *forwarder
	log     *logger
	inputs  map[string]any
	secrets *redact.Set
	known   []redact.Secret // values to hide in the view
	lock    bool            // the provider lock file is given and not to be changed

	configHash, lockHash string

	stages  []link.StageTime
	ran     time.Duration // of the tool, in the present stage
	result  link.Result
	applied applied
	begun   bool // the apply's command was started
}

// attempt does the work and tells how it ended.
func (w *Worker) attempt(ctx context.Context, b link.Begin, s *session) link.Result {
	dir := filepath.Join(w.WorkDir, b.Attempt)
	a := &attempt{
		worker: w, Begin: b, session: s, dir: dir, module: filepath.Join(dir, link.ModuleDir), private: filepath.Join(dir, scratchDir),
		applied: applied{done: map[string]map[string]bool{}},
	}
	err := a.collectSecrets(b.Sensitive)
	if err == nil {
		a.log = newLogger(s.conn, b.LogLineBytes, a.secrets)
		err = a.work(ctx)
		a.log.flush()
	}
	if stuck := w.alone(); stuck != nil {
		w.log.Error("processes of an attempt do not end", "attempt", b.Attempt, "error", stuck)
		err = errors.Join(err, stuck)
	}
	a.conclude(ctx, err)
	return a.result
}

// work runs the stages.
func (a *attempt) work(ctx context.Context) error {
	if err := a.directories(); err != nil {
		return err
	}
	f, err := newForwarder(ctx, a.dir, 0, a.worker.BrokerUID, a.worker.log)
	if err != nil {
		return err
	}
	defer f.Close()
	a.forward = f
	a.env, err = tofu.Environment(tofu.EnvironmentOptions{
		Host: a.worker.host, Home: filepath.Join(a.dir, homeDir), TempDir: filepath.Join(a.dir, tempDir),
		CLIConfig: filepath.Join(a.dir, scratchDir, cliConfig),
		Backend:   &tofu.Backend{Address: f.address(), Username: a.User, Password: a.Password, NoLock: a.ReadOnly},
	})
	if err != nil {
		return err
	}
	// Nothing runs in prepare, so it need not wait until this is known.
	alone := make(chan error, 1)
	go func() { alone <- a.worker.alone() }()
	if err := errors.Join(a.stage(ctx, link.StagePrepare, a.prepare), <-alone); err != nil {
		return err
	}
	if err := a.stage(ctx, link.StageInit, a.init); err != nil {
		return err
	}
	if a.Apply {
		return a.workApply(ctx)
	}
	if err := a.stage(ctx, link.StageValidate, a.validate); err != nil {
		return err
	}
	return a.stage(ctx, link.StagePlan, a.plan)
}

func (a *attempt) workApply(ctx context.Context) error {
	if err := a.stage(ctx, link.StageApply, a.apply); err != nil {
		return err
	}
	// What was applied is applied, also when somebody wanted to cancel it by then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCancel+time.Duration(a.TimeoutSeconds)*time.Second)
	defer cancel()
	return a.stage(ctx, link.StageOutputs, a.outputs)
}

// stage runs one stage and takes its time. Nothing a stage started lives on after it: the executor sees to that.
func (a *attempt) stage(ctx context.Context, name string, do func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.log.begin(name)
	if err := a.session.conn.Send(link.Message{Stage: &link.Stage{Stage: name}}); err != nil {
		return err
	}
	begin := a.worker.now()
	a.ran = 0
	err := do(ctx)
	a.stages = append(a.stages, link.StageTime{Stage: name, Milliseconds: a.worker.now().Sub(begin).Milliseconds(), Tool: a.ran.Milliseconds()})
	if err != nil {
		a.say(err)
	}
	a.log.flush()
	return err
}

// say writes an error of ours into the log, where the tool has not said it already.
func (a *attempt) say(err error) {
	f, ok := errors.AsType[*failure](err)
	if ok && f.err == nil {
		return
	}
	text := "holdfast: " + err.Error()
	if e, ok := errors.AsType[*fault.Error](err); ok {
		text = "holdfast: " + e.Public
		if e.Hint != "" {
			text += " " + e.Hint
		}
	}
	a.log.line(text)
}

// conclude makes the result of the error the work ended with.
func (a *attempt) conclude(ctx context.Context, err error) {
	r := &a.result
	r.Stages, r.Applied = a.stages, a.applied.counts()
	if err == nil {
		r.Outcome = link.Succeeded
		return
	}
	r.PartialApply = a.begun && !a.applied.whole && a.applied.started
	r.Outcome, r.Class, r.Message = link.Failed, link.ClassInfrastructure, err.Error()
	if f, ok := errors.AsType[*failure](err); ok {
		r.Class, r.Message = f.class, f.message
		err = f.err
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		r.Message = strings.TrimSpace(e.Public + " " + e.Hint)
	}
	// The answer that says no may be heard before the order to end, which then has no effect on ctx yet.
	cause := context.Cause(ctx)
	c, ordered := errors.AsType[cancelled](errors.Join(cause, err))
	if ordered && !a.applied.whole {
		r.Outcome, r.Class, r.Message = link.Cancelled, link.ClassCancelled, "The attempt was ended: "+c.Error()+"."
	} else if errors.Is(cause, errStopping) && !a.applied.whole {
		r.Outcome, r.Class, r.Message = link.Failed, link.ClassInfrastructure, "The agent's worker was stopped."
	}
	if a.secrets != nil {
		r.Message = a.secrets.Clean(r.Message)
	}
	const limit = 3900 // bytes; the contract allows 4000 characters
	if len(r.Message) > limit {
		r.Message = strings.ToValidUTF8(r.Message[:limit], "") + "…"
	}
}

// directories makes the worker's own.
func (a *attempt) directories() error {
	for _, name := range []string{homeDir, tempDir, scratchDir} {
		if err := os.Mkdir(filepath.Join(a.dir, name), 0o700); err != nil {
			return fmt.Errorf("make the attempt's directories: %w", err)
		}
	}
	return nil
}

// collectSecrets compiles what the log is cleaned of: the values of sensitive inputs and the state's password.
func (a *attempt) collectSecrets(sensitive []string) error {
	a.inputs = map[string]any{}
	if len(a.Inputs) > 0 {
		dec := json.NewDecoder(bytes.NewReader(a.Inputs))
		dec.UseNumber() // every digit of a secret counts
		if err := dec.Decode(&a.inputs); err != nil {
			return &failure{link.ClassConfiguration, "The inputs are not a JSON object", err}
		}
	}
	a.known = nil
	watched := []redact.Secret{a.Password}
	for _, name := range sensitive {
		leaves(a.inputs[name], func(s string) { a.known = append(a.known, redact.NewSecret(s)) })
	}
	for _, s := range a.known {
		// Too short or too long to be found in text; in a view it is hidden by its mark.
		if redact.Usable(s) == nil {
			watched = append(watched, s)
		}
	}
	set, err := redact.Compile(watched...)
	if err != nil {
		return fmt.Errorf("prepare the log: %w", err)
	}
	a.secrets = set
	return nil
}

// leaves calls f with every text and number within a value.
func leaves(value any, f func(string)) {
	switch v := value.(type) {
	case string:
		f(v)
	case json.Number:
		f(v.String())
	case []any:
		for _, x := range v {
			leaves(x, f)
		}
	case map[string]any:
		for _, x := range v {
			leaves(x, f)
		}
	}
}

// limits are the command's limits.
func (a *attempt) limits(c executor.Command) executor.Command {
	c.Timeout, c.Grace, c.NotBefore = time.Duration(a.TimeoutSeconds)*time.Second, a.worker.InterruptGrace, killNotBefore
	return c
}
