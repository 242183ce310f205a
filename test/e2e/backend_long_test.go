package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

// persistInterval is how long the tools wait between two saves of one apply. It cannot be made shorter.
const persistInterval = 20 * time.Second

// longConfig is a chain of resources: one is made at once; one takes as long as the tools wait with a save; the last
// waits for the file "go" in the folder. The first two say "begun" when they are at work.
const longConfig = `
resource "terraform_data" "first" { input = 1 }

resource "terraform_data" "second" {
  input      = 2
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "sleep %d"
  }
}

resource "terraform_data" "third" {
  input      = 3
  depends_on = [terraform_data.second]
  provisioner "local-exec" {
    command = "touch begun; while [ ! -e go ]; do sleep 0.1; done"
  }
}
`

// longApply is an apply in the background.
type longApply struct {
	*workdir
	server *backendServer
	name   string
	cmd    *exec.Cmd
	out    bytes.Buffer // read it once the apply has ended
	ended  chan error
}

// beginLong starts an apply of longConfig in a process group of its own.
func beginLong(t *testing.T, s *backendServer, tool, name, config string, env ...string) *longApply {
	t.Helper()
	l := &longApply{workdir: newWorkdir(t, s, tool, name, s.token, config, env...), server: s, name: name, ended: make(chan error, 1)}
	l.run(t, "init", "-no-color", "-input=false")
	l.cmd = l.command(t, "apply", "-no-color", "-input=false", "-auto-approve")
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { l.ended <- l.cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL) }) // what is left of the group
	return l
}

// until waits for what the tool does.
func (l *longApply) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case err := <-l.ended:
			t.Fatalf("the apply ended (%v) before %s\n%s", err, what, l.out.String())
		case <-timeout:
			t.Fatalf("it did not come to pass in %s that %s", patience, what)
		}
	}
}

func (l *longApply) begun() bool {
	_, err := os.Stat(filepath.Join(l.dir, "begun"))
	return err == nil
}

// end waits for the apply and gives its exit code.
func (l *longApply) end(t *testing.T) int {
	t.Helper()
	select {
	case err := <-l.ended:
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatalf("the apply did not end\n%s", l.out.String())
	}
	return l.cmd.ProcessState.ExitCode()
}

// kill ends the tool, and what it started, as a machine that goes away does.
func (l *longApply) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-l.ended
}

// stored are the addresses in the current document.
func (l *longApply) stored(t *testing.T) []string {
	t.Helper()
	list := strings.Fields(l.run(t, "state", "list"))
	slices.Sort(list)
	return list
}

// W2, S16: a long apply saves more than once under its lock, which makes one version with the newest save. Killed after
// an intermediate save, that is what is current, and the lock stays with who held it until it is forced; then the tool
// goes on from there.
func TestBackendLongApply(t *testing.T) {
	config := fmt.Sprintf(longConfig, int(persistInterval.Seconds())+1)
	type variant struct {
		name  string
		apply *longApply
		check func(t *testing.T, l *longApply)
	}
	var all []variant // at once, for each waits for the tool's clock
	for store, s := range map[string]*backendServer{"sqlite": onSQLite(t), "postgres": onPostgres(t)} {
		for tool, bin := range tools(t) {
			for what, check := range map[string]func(*testing.T, *longApply){"finished": finishLong, "killed": killLong} {
				all = append(all, variant{store + "/" + tool + "/" + what, beginLong(t, s, bin, what+"-"+tool, config), check})
			}
		}
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			l := v.apply
			l.until(t, "the last resource is at work, and the two before it are saved", func() bool { return l.begun() && l.server.state(t, l.name).Version > 0 })
			s := l.server.state(t, l.name)
			if s.Version != 1 || s.Serial == nil || *s.Serial != 1 || s.Lock == nil || s.Lock.Operation != "OperationTypeApply" || s.Lock.Holder.Kind != "user" {
				t.Fatalf("in the middle of the apply: %+v, want version 1 with serial 1, and the user's lock", s)
			}
			if got := l.stored(t); !slices.Equal(got, []string{"terraform_data.first", "terraform_data.second"}) {
				t.Errorf("saved in the middle: %v, want the first two", got)
			}
			v.check(t, l)
		})
	}
}

func finishLong(t *testing.T, l *longApply) {
	l.write(t, "go", "")
	if code := l.end(t); code != 0 {
		t.Fatalf("the apply ended with %d\n%s", code, l.out.String())
	}
	s, vs := l.server.state(t, l.name), l.server.versions(t, l.name)
	if len(vs) != 1 || s.Version != 1 || *s.Serial < 2 || s.Lock != nil {
		t.Errorf("after it: %+v and %d versions, want one with serial 2 or more and no lock", s, len(vs))
	}
	if got := l.stored(t); len(got) != 3 {
		t.Errorf("saved at last: %v, want all three", got)
	}
}

func killLong(t *testing.T, l *longApply) {
	l.kill(t)
	s := l.server.state(t, l.name)
	if s.Version != 1 || *s.Serial != 1 || s.Lock == nil || s.Lock.Holder.Alive != "unknown" {
		t.Fatalf("after the kill: %+v, want what was saved, locked by somebody of whom nobody knows", s)
	}
	id := s.Lock.ID
	if out := l.fail(t, "plan", "-no-color", "-input=false"); !strings.Contains(out, id) {
		t.Errorf("the next plan does not name the lock that is left:\n%s", out)
	}
	l.run(t, "force-unlock", "-force", id)
	l.write(t, "go", "")
	out := l.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
	if !strings.Contains(out, "1 added, 0 changed, 0 destroyed") {
		t.Errorf("the next apply did not make the third alone:\n%s", out)
	}
	if s := l.server.state(t, l.name); s.Version != 2 || s.Lock != nil {
		t.Errorf("at last: %+v, want version 2 and no lock", s)
	}
}

// tools are the tools to test with, by name.
func tools(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"tofu": tofubin.Path(t)}
	if terraform, ok := tofubin.Terraform(t); ok {
		all["terraform"] = terraform
	}
	return all
}

// shortConfig is longConfig without the wait for an intermediate save.
var shortConfig = fmt.Sprintf(longConfig, 0)

// W2, facts 6 and 10: one interrupt makes the tool save at once and again at its end, under one lock and into one
// version. Nothing that was made is lost, and no lock is left.
func TestBackendInterruptedApply(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			l := beginLong(t, s, tool, "interrupted-"+filepath.Base(tool), shortConfig)
			l.until(t, "the last resource is at work", l.begun)
			if v := s.state(t, l.name); v.Lock == nil {
				t.Fatalf("before the interrupt: %+v, want a lock", v)
			}
			if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if code := l.end(t); code != 1 {
				t.Errorf("the apply ended with %d, want 1\n%s", code, l.out.String())
			}
			v, vs := s.state(t, l.name), s.versions(t, l.name)
			if len(vs) != 1 || v.Lock != nil || v.Serial == nil || *v.Serial < 1 {
				t.Fatalf("after the interrupt: %+v and %d versions, want one and no lock", v, len(vs))
			}
			if got := l.stored(t); len(got) != 3 { // the third is tainted: its provisioner was stopped
				t.Errorf("saved: %v, want all three", got)
			}
			if _, err := os.Stat(filepath.Join(l.dir, "errored.tfstate")); err == nil {
				t.Error("a save was refused: there is an errored.tfstate")
			}
			l.write(t, "go", "")
			l.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
			l.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode")
		})
	})
}

// Fact 12, L01: the server is away while an apply saves. What was made is in errored.tfstate, of which the command line
// takes every kind, the one that OpenTofu encrypts too, once the lock that is left was forced.
func TestBackendRecoversErroredState(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		for tool, bin := range tools(t) {
			t.Run(tool, func(t *testing.T) { recoverErrored(t, s, bin, "errored-"+tool, shortConfig) })
		}
		t.Run("tofu, encrypted", func(t *testing.T) {
			recoverErrored(t, s, tofubin.Path(t), "errored-sealed", shortConfig+encryption("a long enough passphrase"))
		})
	})
}

func recoverErrored(t *testing.T, s *backendServer, tool, name, config string) {
	l := beginLong(t, s, tool, name, config, "TF_HTTP_RETRY_MAX=0")
	l.until(t, "the last resource is at work", l.begun)
	s.away.Store(true)
	t.Cleanup(func() { s.away.Store(false) })
	l.write(t, "go", "")
	if code := l.end(t); code != 1 {
		t.Fatalf("the apply ended with %d, want 1\n%s", code, l.out.String())
	}
	s.away.Store(false)
	errored := filepath.Join(l.dir, "errored.tfstate")
	if _, err := os.Stat(errored); err != nil {
		t.Fatalf("%v\n%s", err, l.out.String())
	}
	v := s.state(t, name)
	if v.Lock == nil {
		t.Fatalf("after the apply: %+v, want its lock left", v)
	}
	saved := v.Version // 0, unless the machine is so slow that the tool has saved before
	if out := s.cli(t, true, "state", "push", name, errored); !strings.Contains(out, v.Lock.ID) {
		t.Errorf("a push against the lock that is left does not name it:\n%s", out)
	}
	s.cli(t, false, "state", "unlock", name, "--id", v.Lock.ID, "--force")
	s.cli(t, false, "state", "push", name, errored, "--dry-run")
	s.cli(t, false, "state", "push", name, errored)
	file, err := os.ReadFile(errored)
	if err != nil {
		t.Fatal(err)
	}
	if _, stored := s.ask(t, s.token, "GET", "/api/tf-states/"+name+"/state", ""); !bytes.Equal(stored, file) {
		t.Error("what is stored is not the file, byte for byte")
	}
	if v := s.state(t, name); v.Version != saved+1 || v.Lock != nil {
		t.Errorf("after the push: %+v, want version %d and no lock", v, saved+1)
	}
	l.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode")
}

// S10: the passphrase of a state that OpenTofu encrypts is rotated by way of a fallback. The save has the same resources
// and other bytes; afterwards the new passphrase alone opens it, and the old version is still there for the old one.
func TestBackendPassphraseRotation(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		older, newer := key{"k", "the first of two passphrases"}, key{"k2", "the second of two passphrases"}
		w := newWorkdir(t, s, tofubin.Path(t), "rotated", s.token, oneResource+encryptionBy(older))
		use := func(config string) { w.write(t, "main.tf", httpBackend+oneResource+config) }
		w.run(t, "init", "-no-color", "-input=false")
		w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
		first := s.state(t, "rotated")

		use(encryptionBy(newer, older))
		w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=there")
		second := s.state(t, "rotated")
		if second.Version != 2 || !second.ClientEncrypted || second.SHA256 == first.SHA256 || second.Lineage != first.Lineage || second.Lock != nil {
			t.Errorf("after the rotation: %+v, want version 2, client-encrypted, of the same lineage", second)
		}
		use(encryptionBy(newer))
		w.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode", "-var=text=there")
		use(encryptionBy(older))
		w.fail(t, "plan", "-no-color", "-input=false", "-var=text=there")
		if v := s.state(t, "rotated"); v.Lock != nil || v.Version != 2 {
			t.Errorf("after a plan with the old passphrase: %+v, want it as it was and no lock", v)
		}

		// A rolled back version is the old one, byte for byte, which the old passphrase opens.
		s.want(t, s.token, "POST", "/api/tf-states/rotated/rollback", `{"version":1}`, 200, nil)
		if v := s.state(t, "rotated"); v.Version != 3 || v.SHA256 != first.SHA256 {
			t.Errorf("rolled back: %+v, want the first document as version 3", v)
		}
		if got := strings.TrimSpace(w.run(t, "output", "-raw", "text")); got != "hello" {
			t.Errorf("output %q, want hello", got)
		}
	})
}

// W18, S12: a document of 20 MB, with lines of 10 million characters, goes through the tools' own push and pull, lock,
// versions and rollback; one that is over the limit is refused with 413, and changes nothing.
func TestBackendLargeState(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		w := newWorkdir(t, s, tofubin.Path(t), "large", s.token, oneResource)
		w.run(t, "init", "-no-color", "-input=false")
		w.write(t, "1.tfstate", largeState(3, 1_000_000))
		w.run(t, "state", "push", "1.tfstate")
		first := s.state(t, "large")
		if first.Version != 1 || first.Size < 20_000_000 || first.Lock != nil {
			t.Fatalf("after the push: %+v, want version 1 with 20 MB", first)
		}
		w.write(t, "2.tfstate", largeState(9, 1))
		w.run(t, "state", "push", "2.tfstate")
		s.want(t, s.token, "POST", "/api/tf-states/large/rollback", `{"version":1}`, 200, nil)
		back := s.state(t, "large")
		if back.Version != 3 || back.Size < 20_000_000 || back.SHA256 == first.SHA256 {
			t.Errorf("rolled back: %+v, want the first document with a serial of its own as version 3", back)
		}
		if got := w.pulled(t); got.serial != *back.Serial || len(got.content) < 20_000_000 {
			t.Errorf("state pull gives serial %d and %d bytes", got.serial, len(got.content))
		}
		w.write(t, "3.tfstate", largeState(99, backendMaxBytes/20+1))
		if out := w.fail(t, "state", "push", "3.tfstate"); !strings.Contains(out, "413") {
			t.Errorf("a document over the limit:\n%s", out)
		}
		if v := s.state(t, "large"); v.Version != 3 || v.SHA256 != back.SHA256 || v.Lock != nil {
			t.Errorf("after it: %+v, want it as it was and no lock", v)
		}
	})
}

// largeState is what an apply of W18's configuration leaves: the input, of n times 10 characters, and its copy.
func largeState(serial, n int) string {
	value := strings.Repeat("0123456789", n)
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.9.0","serial":%d,"lineage":"","outputs":{},"resources":[{"mode":"managed","type":"terraform_data","name":"large",`+
		`"provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{"id":"1","input":{"value":%q,"type":"string"},`+
		`"output":{"value":%[2]q,"type":"string"},"triggers_replace":null},"sensitive_attributes":[]}]}],"check_results":null}`, serial, value)
}

// S12: exactly the limit is taken, and a byte more is 413 with a text that says the limit.
func TestBackendSizeLimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		whole := []byte(`{"version":4,"serial":1,"lineage":"l","x":"`)
		whole = append(whole, bytes.Repeat([]byte("x"), backendMaxBytes-len(whole)-2)...)
		whole = append(whole, `"}`...)
		s.want(t, s.token, "POST", "/api/tf-states/limit/state", string(whole), 200, nil)
		var p api.Problem
		s.want(t, s.token, "POST", "/api/tf-states/limit/state", string(whole)+"\n", 413, &p)
		if p.Code != "too_large" || !strings.Contains(p.Detail, fmt.Sprint(backendMaxBytes)) {
			t.Errorf("one byte over the limit: %+v", p)
		}
		if v := s.state(t, "limit"); v.Version != 1 || v.Size != backendMaxBytes {
			t.Errorf("after it: %+v, want the document of exactly the limit", v)
		}
	})
}
