package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/broker/internal/platform"
	"holdfast.dev/holdfast/internal/redact"
)

func TestRecordsAreSealedUnderTheAgentsToken(t *testing.T) {
	dir := t.TempDir()
	mine, err := newSealer(redact.NewSecret("token one"))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newSealer(redact.NewSecret("token two"))
	if err != nil {
		t.Fatal(err)
	}
	want := record{Work: api.Work{Attempt: "att_1", Task: "tsk_1", Inputs: json.RawMessage(`{}`), State: api.WorkState{Token: "canary-token"}}, Password: "canary-password"}
	if err := mine.write(dir, want); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil || bytes.Contains(text, []byte("canary")) {
		t.Errorf("the file shows the token: %q, %v", text, err)
	}
	got, err := mine.read(dir, "att_1")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := theirs.read(dir, "att_1"); err == nil {
		t.Error("another token opens the record")
	}
	if _, err := mine.read(dir, "att_2"); err == nil {
		t.Error("a record opens as another attempt's")
	}
}

// logServer takes chunks as the server does, and can be made to fail.
type logServer struct {
	mu     sync.Mutex
	chunks []api.AttemptLog
	fail   func(n int) int // status by number of the request; 0 is success, -1 a lost answer
	n      int
}

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in api.AppendLogs
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		w.WriteHeader(400)
		return
	}
	s.n++
	status := 0
	if s.fail != nil {
		status = s.fail(s.n)
	}
	if status > 0 {
		w.WriteHeader(status)
		return
	}
	for _, c := range in.Chunks {
		if c.Seq == int64(len(s.chunks)) {
			s.chunks = append(s.chunks, c)
		}
	}
	if status < 0 {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(api.LogsAcknowledged{Next: int64(len(s.chunks))})
}

func (s *logServer) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, c := range s.chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

func openTestLogs(t *testing.T, s *logServer, path string, policy api.AgentPolicy) *logs {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := platform.New(base, redact.NewSecret("t"), "test", slog.New(slog.DiscardHandler))
	l, err := openLogs(path, p, api.Work{Task: "tsk_1", Attempt: "att_1"}, policy, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// deliverAll runs the delivery until everything is acknowledged.
func deliverAll(t *testing.T, l *logs) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	err := l.flush(ctx)
	cancel()
	running.Wait()
	return err
}

func TestR26_LogsArriveWholeAndInOrder(t *testing.T) {
	s := &logServer{fail: func(n int) int { return []int{0, -1, 503, 0, 500, -1}[n%6] }}
	path := filepath.Join(t.TempDir(), "log")
	l := openTestLogs(t, s, path, api.AgentPolicy{LogTotalBytes: 1 << 20, LogChunkBytes: 4096})
	var want strings.Builder
	for i := range 300 {
		text := strings.Repeat("line ", i%50) + "\n"
		want.WriteString(text)
		if err := l.add("plan", text); err != nil {
			t.Fatal(err)
		}
	}
	if err := deliverAll(t, l); err != nil {
		t.Fatal(err)
	}
	if s.text() != want.String() {
		t.Errorf("stored %d bytes, want all %d in order", len(s.text()), want.Len())
	}
	// A next life sends nothing twice, and goes on where the last one ended, with a torn line cut off.
	if err := errors.Join(l.file.Close(), appendTo(path, `{"seq":300,"stage":"pl`)); err != nil {
		t.Fatal(err)
	}
	s.fail = nil
	l = openTestLogs(t, s, path, api.AgentPolicy{LogTotalBytes: 1 << 20, LogChunkBytes: 4096})
	if err := l.add("apply", "the end\n"); err != nil {
		t.Fatal(err)
	}
	if err := deliverAll(t, l); err != nil {
		t.Fatal(err)
	}
	if got := s.text(); got != want.String()+"the end\n" {
		t.Errorf("after a new life: stored %d bytes, want %d", len(got), want.Len()+8)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestR27_AHugeLogIsCutAndTheWorkGoesOn(t *testing.T) {
	s := &logServer{}
	l := openTestLogs(t, s, filepath.Join(t.TempDir(), "log"), api.AgentPolicy{LogTotalBytes: 100_000, LogChunkBytes: 5000})
	for range 50 {
		if err := l.add("apply", strings.Repeat("ü", 5000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := deliverAll(t, l); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.chunks {
		if len(c.Text) > 5000 || !utf8.ValidString(c.Text) {
			t.Fatalf("a chunk of %d bytes, valid: %v; want at most 5000, of whole characters", len(c.Text), utf8.ValidString(c.Text))
		}
	}
	got := s.text()
	if len(got) > 101_000 || len(got) < 90_000 || !strings.HasSuffix(got, "the work goes on]\n") || strings.Count(got, "log cut") != 1 {
		t.Errorf("stored %d bytes ending in %q, want about 100000 and one mark", len(got), got[max(len(got)-80, 0):])
	}
	if info, err := l.file.Stat(); err != nil || info.Size() > 150_000 {
		t.Errorf("the file has %d bytes, %v; want it bounded", info.Size(), err)
	}
}

func TestAFinalRefusalOfTheLogEndsIt(t *testing.T) {
	s := &logServer{fail: func(int) int { return http.StatusConflict }}
	l := openTestLogs(t, s, filepath.Join(t.TempDir(), "log"), defaultPolicy())
	if err := l.add("plan", "x"); err != nil {
		t.Fatal(err)
	}
	if err := deliverAll(t, l); platform.Status(err) != http.StatusConflict || s.n != 1 {
		t.Errorf("got %v after %d requests, want the 409, once", err, s.n)
	}
}

func TestOnlyTheWorkersOwnFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	join := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600), os.WriteFile(join("good"), []byte("good"), 0o600), os.WriteFile(join("large"), make([]byte, 101), 0o600),
		os.Symlink(outside, join("absolute")), os.Symlink("../"+filepath.Base(filepath.Dir(outside))+"/outside", join("relative")),
		syscall.Mkfifo(join("pipe"), 0o600), os.Mkdir(join("folder"), 0o700), os.Symlink(filepath.Dir(outside), join("away")),
	)
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{WorkerUID: os.Getuid()}
	for _, name := range []string{"large", "absolute", "relative", "pipe", "folder", "away/outside", "../" + filepath.Base(dir) + "/good", outside, "missing"} {
		if f, _, err := b.openWorkers(dir, name, 100); err == nil {
			_ = f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, _, err := b.openWorkers(dir, "missing", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, want that it does not exist", err)
	}
	f, size, err := b.openWorkers(dir, "good", 100)
	if err != nil || size != 4 {
		t.Fatalf("good: got size %d, %v", size, err)
	}
	_ = f.Close()
	b.WorkerUID++
	if f, _, err := b.openWorkers(dir, "good", 100); err == nil {
		_ = f.Close()
		t.Error("another user's file was opened")
	}
}

func TestTheServersPolicyIsBounded(t *testing.T) {
	most := bounded(api.AgentPolicy{
		ClaimWaitSeconds: math.MaxInt, HeartbeatSeconds: math.MaxInt, LogLineBytes: math.MaxInt, LogTotalBytes: math.MaxInt64, LogChunkBytes: math.MaxInt,
		StateMaxBytes: math.MaxInt64, SourceMaxBytes: math.MaxInt64, PlanMaxBytes: math.MaxInt64,
	})
	if most.HeartbeatSeconds > 60 || most.LogTotalBytes > 1<<30 || most.SourceMaxBytes > 100<<20 || most.PlanMaxBytes > 256<<20 || most.StateMaxBytes > 128<<20 {
		t.Errorf("a policy without bounds: got %+v", most)
	}
	if least := bounded(api.AgentPolicy{}); least != defaultPolicy() {
		t.Errorf("no policy: got %+v, want the default", least)
	}
}

func TestTheWorkersEnvironmentHoldsNothingOfTheBrokers(t *testing.T) {
	env := workerEnvironment([]string{
		"HOLDFAST_AGENT_TOKEN=canary", "HOLDFAST_AGENT_TOKEN_FILE=canary", "HOLDFAST_PLATFORM_URL=canary", "HOLDFAST_TOKEN=canary",
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY=canary", "HOLDFAST_DATABASE_URL=canary", "PGPASSWORD=canary", "SSH_AUTH_SOCK=canary", "TF_CLI_ARGS=canary",
		"PATH=/bin", "AWS_REGION=eu", "HOLDFAST_WORK_DIR=/w", "HOLDFAST_DEVELOPMENT_UNISOLATED=1",
	})
	if got := strings.Join(env, " "); got != "PATH=/bin AWS_REGION=eu HOLDFAST_WORK_DIR=/w HOLDFAST_DEVELOPMENT_UNISOLATED=1" {
		t.Errorf("got %q", got)
	}
}
