package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/id"
	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/redact"
)

// meet dials a worker as its broker does.
func (a *agent) meet(t *testing.T, uid int) *link.Conn {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		c, err := link.Dial(a.dir, link.WorkerSocket, uid)
		if err == nil {
			conn := link.NewConn(c)
			if m, err := conn.ReceiveWithin(30 * time.Second); err != nil || m.Hello == nil {
				t.Fatalf("first word: got %+v, %v", m, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		if time.Now().After(deadline) {
			t.Fatalf("meet the worker: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// result hears the worker until it says how the work ended.
func result(t *testing.T, conn *link.Conn) link.Result {
	t.Helper()
	for {
		m, err := conn.ReceiveWithin(60 * time.Second)
		if err != nil {
			t.Fatalf("hear the worker: %v", err)
		}
		if m.Ask != nil {
			if err := conn.Send(link.Message{Answer: &link.Answer{Go: true}}); err != nil {
				t.Fatal(err)
			}
		}
		if m.Result != nil {
			return *m.Result
		}
	}
}

// TestTheWorkerChecksForItself plays the broker and gives the worker what a broker would have refused already.
func TestTheWorkerChecksForItself(t *testing.T) {
	p, a := newPlatform(t), newAgent(t)
	made := newAgent(t)
	made.unisolated(p)
	src := pack(t, map[string]string{"main.tf": hello})
	planned := p.plan(src, `{"name":"world"}`)
	m := planned.plan
	sum := sha256.Sum256(src)
	a.start(0, []string{"HOLDFAST_TOFU_BIN=" + a.tool, "HOLDFAST_DEVELOPMENT_UNISOLATED=1"}, "holdfast-worker")
	good := func() (link.Begin, []byte, []byte) {
		return link.Begin{
			Apply: true, SourceSHA256: hex.EncodeToString(sum[:]), SourceMaxBytes: 1 << 20, Inputs: planned.Inputs, TimeoutSeconds: 60, LogLineBytes: 1000,
			User: "u", Password: redact.NewSecret("password"),
			Plan: &link.Approved{Digest: m.Digest, Tool: m.Tool, Version: m.Version, LockFile: m.LockFile, ConfigHash: m.ConfigHash, View: m.View},
		}, src, planned.planFile
	}
	for name, c := range map[string]struct {
		change      func(b *link.Begin, source, plan *[]byte)
		class, want string
	}{
		"nothing is wrong":   {func(*link.Begin, *[]byte, *[]byte) {}, "", ""},
		"another source":     {func(_ *link.Begin, s, _ *[]byte) { *s = append(append([]byte{}, *s...), 0) }, "refused", "SHA-256"},
		"another plan":       {func(_ *link.Begin, _, f *[]byte) { *f = append(append([]byte{}, *f...), 0) }, "refused", "digest"},
		"no plan":            {func(_ *link.Begin, _, f *[]byte) { *f = nil }, "refused", "digest"},
		"inputs are no list": {func(b *link.Begin, _, _ *[]byte) { b.Inputs = []byte(`[]`) }, "configuration", "inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			b, source, plan := good()
			c.change(&b, &source, &plan)
			b.Attempt = id.New(id.Attempt, time.Now())
			dir := filepath.Join(a.dir, b.Attempt)
			err := errors.Join(os.Mkdir(dir, 0o770), os.WriteFile(filepath.Join(dir, link.SourceArchive), source, 0o600), os.WriteFile(filepath.Join(dir, link.PlanFile), plan, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			saves := emptyState(t, dir)
			conn := a.meet(t, os.Getuid())
			if err := conn.Send(link.Message{Begin: &b}); err != nil {
				t.Fatal(err)
			}
			r := result(t, conn)
			if r.Class != c.class || !strings.Contains(r.Message, c.want) || (c.class == "") != (*saves > 0) {
				t.Errorf("got %+v with %d saves, want class %q and %q said", r, *saves, c.class, c.want)
			}
			if err := conn.Send(link.Message{Clean: &link.Clean{Attempt: b.Attempt}}); err != nil {
				t.Fatal(err)
			}
			if m, err := conn.ReceiveWithin(30 * time.Second); err != nil || m.Cleaned == nil {
				t.Errorf("clean: got %+v, %v", m, err)
			}
			_ = conn.Close()
		})
	}
	for name, m := range map[string]link.Message{
		"an attempt outside":  {Begin: &link.Begin{Attempt: "../elsewhere"}},
		"cleaning outside":    {Clean: &link.Clean{Attempt: "../elsewhere"}},
		"a worker's own word": {Hello: &link.Hello{}},
	} {
		conn := a.meet(t, os.Getuid())
		if err := conn.Send(m); err != nil {
			t.Fatal(err)
		}
		if m, err := conn.ReceiveWithin(30 * time.Second); err == nil {
			t.Errorf("%s: the worker answered %+v, want the connection's end", name, m)
		}
	}
}

// emptyState serves a state that does not exist yet, and counts what is saved.
func emptyState(t *testing.T, dir string) *int {
	t.Helper()
	l, done, err := link.Listen(dir, link.StateSocket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	saves := 0
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, password, _ := r.BasicAuth(); {
		case password != "password":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost:
			saves++
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); done() })
	return &saves
}

// TestPeersAreCheckedByTheKernel puts a stranger at either end of the worker's socket.
func TestPeersAreCheckedByTheKernel(t *testing.T) {
	t.Run("a stranger dials the worker", func(t *testing.T) {
		a := newAgent(t)
		a.share()
		a.worker()
		deadline := time.Now().Add(30 * time.Second)
		for !strings.Contains(a.said(), "refused a connection") {
			// This process is root, and the worker expects its broker's user.
			if c, err := link.Dial(a.dir, link.WorkerSocket, workerUID); err == nil {
				if m, err := link.NewConn(c).ReceiveWithin(10 * time.Second); err == nil {
					t.Fatalf("the worker said %+v to a stranger", m)
				}
				_ = c.Close()
			}
			if time.Now().After(deadline) {
				t.Fatal("the worker refused nobody")
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	t.Run("a stranger poses as the worker", func(t *testing.T) {
		p, a := newPlatform(t), newAgent(t)
		a.share()
		l, done, err := link.Listen(a.dir, link.WorkerSocket, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		heard := make(chan error, 1)
		a.broker(p)
		c, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		go func() { heard <- deafen(c) }()
		if err := <-heard; err == nil {
			t.Error("the broker spoke to a stranger")
		}
		if len(p.register)+p.claims != 0 {
			t.Error("the broker claims work for a stranger")
		}
	})
}

// deafen says hello and gives nil when the other side says anything at all.
func deafen(c *net.UnixConn) error {
	conn := link.NewConn(c)
	_ = conn.Send(link.Message{Hello: &link.Hello{Protocol: link.Protocol}}) // it may have hung up already
	_, err := conn.ReceiveWithin(30 * time.Second)
	return err
}
