package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

const oneResource = `
variable "text" {
  default = "hello"
}
resource "terraform_data" "one" {
  input = var.text
}
output "text" {
  value = terraform_data.one.output
}
`

const humanLock = `{"ID":"human-lock-1","Operation":"maintenance","Info":"","Who":"ann@desk","Version":"","Created":"2026-01-02T03:04:05Z","Path":""}`

// The whole life of a state under the tool as it is: W1, W9, S08, S09.
func TestBackendWholeLife(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			name := "life-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, s.token, oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			w.run(t, "plan", "-no-color", "-input=false", "-out=first.plan")
			if v := s.state(t, name); v.Version != 0 || v.Lock != nil {
				t.Fatalf("after the plan: %+v, want nothing stored and no lock", v)
			}
			w.run(t, "apply", "-no-color", "-input=false", "first.plan")
			first := s.state(t, name)
			if first.Version != 1 || first.Serial == nil || *first.Serial != 1 || first.Lock != nil || first.Lineage == "" {
				t.Fatalf("after the apply: %+v, want version 1 with serial 1 and no lock", first)
			}
			if got := strings.TrimSpace(w.run(t, "output", "-raw", "text")); got != "hello" {
				t.Errorf("output %q, want hello", got)
			}
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve") // S09
			if again := s.state(t, name); again.Version != 1 || again.SHA256 != first.SHA256 {
				t.Errorf("an apply without changes made version %d", again.Version)
			}
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=there")
			checkBytes(t, s, name, w)
			pushHigher(t, s, name, w)
			w.run(t, "destroy", "-no-color", "-input=false", "-auto-approve")
			vs := s.versions(t, name)
			if len(vs) != 4 || !vs[0].Current || vs[0].LockID == "" || vs[0].CreatedBy.Kind != "user" {
				t.Errorf("versions %+v, want 4, the newest current, written under a lock by a user", vs)
			}
		})
	})
}

// checkBytes: what the backend, the version list and the download give is one document (S08).
func checkBytes(t *testing.T, s *backendServer, name string, w *workdir) {
	t.Helper()
	status, head := s.ask(t, s.token, "GET", "/api/tf-states/"+name+"/state", "")
	downloaded, old := s.ask(t, s.token, "GET", "/api/tf-states/"+name+"/versions/2/content", "")
	if status != 200 || downloaded != 200 || !bytes.Equal(head, old) {
		t.Fatalf("the backend gave %d and %d bytes, the download %d and %d", status, len(head), downloaded, len(old))
	}
	var stored, pulled any
	if err := json.Unmarshal(head, &stored); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(w.run(t, "state", "pull")), &pulled); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(stored) != fmt.Sprint(pulled) {
		t.Errorf("state pull gave\n%v\nstored is\n%v", pulled, stored)
	}
}

// pushHigher pushes what was pulled, changed and with a higher serial; then, refused by the tool itself, a lower one.
func pushHigher(t *testing.T, s *backendServer, name string, w *workdir) {
	t.Helper()
	var doc map[string]any
	d := json.NewDecoder(strings.NewReader(w.run(t, "state", "pull")))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	doc["serial"] = 7
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "higher.tfstate", string(raw))
	w.run(t, "state", "push", "higher.tfstate")
	v := s.state(t, name)
	if v.Version != 3 || v.Serial == nil || *v.Serial < 7 {
		t.Errorf("after the push: version %d, serial %v, want version 3 with a serial from 7 on", v.Version, v.Serial)
	}
}

// L02, L01, L07: the tool shows who holds the lock, cannot write against it, and can force it with the right role.
func TestL02BackendLockConflict(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		operator, holder := s.user(t, "ben", "operator"), s.user(t, "ann", "operator")
		eachTool(t, func(t *testing.T, tool string) {
			name := "conflict-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, operator, oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			s.want(t, holder, "LOCK", "/api/tf-states/"+name+"/lock", humanLock, 200, nil)
			out := w.fail(t, "plan", "-no-color", "-input=false")
			if !strings.Contains(out, "human-lock-1") {
				t.Errorf("the plan does not name the lock:\n%s", out)
			}
			if filepath.Base(tool) != "terraform" && (!strings.Contains(out, "ann@desk") || !strings.Contains(out, "held by user ann since")) {
				t.Errorf("the plan does not show the holder:\n%s", out)
			}
			w.fail(t, "apply", "-no-color", "-input=false", "-auto-approve", "-lock=false")
			if v := s.state(t, name); v.Version != 0 || v.Lock == nil || v.Lock.ID != "human-lock-1" {
				t.Fatalf("after a write without the lock: %+v, want nothing stored and the lock as it was", v)
			}
			s.log.wait(t, `msg="state write refused"`, 1)
			w.fail(t, "force-unlock", "-force", "human-lock-1")
			if s.state(t, name).Lock == nil {
				t.Fatal("an operator forced somebody else's lock")
			}
			w.env = append(w.env, "TF_HTTP_PASSWORD="+s.token) // the last one counts
			w.run(t, "force-unlock", "-force", "human-lock-1")
			if v := s.state(t, name); v.Lock != nil {
				t.Fatalf("after the force-unlock: lock %+v", v.Lock)
			}
			var forced api.List[api.AuditRecord]
			s.want(t, s.token, "GET", "/api/audit?action=state.force_unlock&object="+name, "", 200, &forced)
			if len(forced.Items) != 1 || !strings.Contains(string(forced.Items[0].Data), "human-lock-1") {
				t.Errorf("audit of the forced release: %+v, want one record with the lock's id", forced.Items)
			}
		})
	})
}

// Permissions that an administrator allocates hold for the tools: who may force a lock, and who may write and read.
func TestBackendFollowsAllocation(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		operator, holder := s.user(t, "ben", "operator"), s.user(t, "ann", "operator")
		allocate := func(permission, role string) {
			t.Helper()
			s.want(t, s.token, "PATCH", "/api/permissions/"+permission, `{"role":"`+role+`"}`, 200, nil)
		}
		eachTool(t, func(t *testing.T, tool string) {
			name := "allocated-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, operator, oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			s.want(t, holder, "LOCK", "/api/tf-states/"+name+"/lock", humanLock, 200, nil)
			w.fail(t, "force-unlock", "-force", "human-lock-1")
			allocate("tf_state:manage", "operator")
			allocate("tf_state:write", "disabled")
			w.run(t, "force-unlock", "-force", "human-lock-1")
			if v := s.state(t, name); v.Lock != nil {
				t.Fatalf("after the force-unlock of an operator who may: lock %+v", v.Lock)
			}
			w.fail(t, "apply", "-no-color", "-input=false", "-auto-approve")
			w.run(t, "plan", "-no-color", "-input=false", "-lock=false") // it reads, and takes no lock
			allocate("tf_state:read", "admin")
			w.fail(t, "plan", "-no-color", "-input=false", "-lock=false")
			for permission, role := range map[string]string{"tf_state:read": "operator", "tf_state:write": "operator", "tf_state:manage": "admin"} {
				allocate(permission, role)
			}
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
			if v := s.state(t, name); v.Version != 1 || v.Lock != nil {
				t.Errorf("with everything allocated as it came: %+v, want the first version and no lock", v)
			}
		})
	})
}

// L02: a tool that waits gets the lock when it is released.
func TestL02BackendLockTimeoutWaits(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		operator, holder := s.user(t, "ben", "operator"), s.user(t, "ann", "operator")
		eachTool(t, func(t *testing.T, tool string) {
			name := "wait-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, operator, oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			s.want(t, holder, "POST", "/api/tf-states/"+name+"/lock", humanLock, 200, nil)
			c := w.command(t, "apply", "-no-color", "-input=false", "-auto-approve", "-lock-timeout=60s")
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			s.log.wait(t, `msg="state lock refused" code=state_locked`, 1)
			s.want(t, holder, "DELETE", "/api/tf-states/"+name+"/lock", humanLock, 200, nil)
			if err := c.Wait(); err != nil {
				t.Fatalf("the apply that waited: %v\n%s", err, out.String())
			}
			if v := s.state(t, name); v.Version != 1 || v.Lock != nil {
				t.Errorf("after the wait: %+v, want version 1 and no lock", v)
			}
		})
	})
}

// L11: lock and unlock spelled as POST and DELETE.
func TestL11BackendOtherSpelling(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			name := "spelling-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, s.token, oneResource, "TF_HTTP_LOCK_METHOD=POST", "TF_HTTP_UNLOCK_METHOD=DELETE")
			w.run(t, "init", "-no-color", "-input=false")
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
			if v := s.state(t, name); v.Version != 1 || v.Lock != nil {
				t.Errorf("after the apply: %+v, want version 1 and no lock", v)
			}
		})
	})
}

// S10: what OpenTofu encrypts is stored as it is, with its serial and lineage checked and its life not cut short.
func TestS10BackendEncryptedByTofu(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		w := newWorkdir(t, s, tofubin.Path(t), "sealed", s.token, oneResource+encryption("a long enough passphrase"))
		w.run(t, "init", "-no-color", "-input=false")
		w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
		w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=there")
		if got := strings.TrimSpace(w.run(t, "output", "-raw", "text")); got != "there" {
			t.Errorf("output %q, want there", got)
		}
		v := s.state(t, "sealed")
		if !v.ClientEncrypted || v.Version != 2 || v.Serial == nil || *v.Serial != 2 {
			t.Errorf("state %+v, want client-encrypted, version 2, serial 2", v)
		}
		_, doc := s.ask(t, s.token, "GET", "/api/tf-states/sealed/state", "")
		if bytes.Contains(doc, []byte("there")) {
			t.Error("the stored document shows a value")
		}
		if _, err := os.Stat(filepath.Join(w.dir, "errored.tfstate")); err == nil {
			t.Error("a save was refused: there is an errored.tfstate")
		}
	})
}

func encryption(passphrase string) string { return encryptionBy(key{"k", passphrase}) }

// key is a key that OpenTofu derives from a passphrase.
type key struct{ name, passphrase string }

// encryptionBy encrypts with the first key, and falls back to the others.
func encryptionBy(keys ...key) string {
	var providers, fallbacks strings.Builder
	for i, k := range keys {
		fmt.Fprintf(&providers, `
    key_provider "pbkdf2" %[1]q {
      passphrase = %[2]q
    }
    method "aes_gcm" %[1]q {
      keys = key_provider.pbkdf2.%[1]s
    }
`, k.name, k.passphrase)
		if i > 0 {
			fmt.Fprintf(&fallbacks, "      fallback {\n        method = method.aes_gcm.%s\n      }\n", k.name)
		}
	}
	return fmt.Sprintf(`
terraform {
  encryption {%s
    state {
      method   = method.aes_gcm.%s
      enforced = true
%s    }
  }
}
`, &providers, keys[0].name, &fallbacks)
}
