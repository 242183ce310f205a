package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/testkit/tofubin"
)

// TestPushErroredState loses a lock in the middle of a real apply, so that the tool leaves an errored.tfstate behind,
// and pushes that: in both tools' forms, and as OpenTofu encrypts it. The next plan finds nothing to do.
func TestPushErroredState(t *testing.T) {
	tofu := tofubin.Path(t)
	cases := map[string]struct{ tool, encryption string }{
		"tofu": {tool: tofu},
		"encrypted": {tool: tofu, encryption: `key_provider "pbkdf2" "k" { passphrase = "a long enough passphrase" }
			method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
			state { method = method.aes_gcm.m }`},
	}
	if terraform, ok := tofubin.Terraform(t); ok {
		cases["terraform"] = struct{ tool, encryption string }{tool: terraform}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorkplace(t)
			environ := append(w.environ, "PATH="+os.Getenv("PATH"), "TF_HTTP_PASSWORD="+adminToken, "TF_ENCRYPTION="+c.encryption, "CHECKPOINT_DISABLE=1")
			run := func(program string, args ...string) (string, error) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), program, args...)
				var out bytes.Buffer
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, environ, &out, &out
				err := cmd.Run()
				return out.String(), err
			}
			must := func(program string, args ...string) string {
				t.Helper()
				out, err := run(program, args...)
				if err != nil {
					t.Fatalf("%s %s: %v\n%s", program, args, err, out)
				}
				return out
			}
			w.write(t, "backend.tf", must("holdfast", "state", "backend-config", "shop"))
			w.write(t, "main.tf", `resource "terraform_data" "one" { input = 1 }`)
			must(c.tool, "init", "-no-color")
			must(c.tool, "apply", "-auto-approve", "-no-color")
			w.write(t, "main.tf", `resource "terraform_data" "one" { input = 2 }
				resource "terraform_data" "two" {
				  provisioner "local-exec" { command = "holdfast state unlock shop --force" }
				}`)
			if out, err := run(c.tool, "apply", "-auto-approve", "-no-color"); err == nil || !strings.Contains(out, "errored.tfstate") {
				t.Fatalf("the apply without its lock: %v\n%s", err, out)
			}
			errored, err := os.ReadFile(filepath.Join(w.dir, "errored.tfstate"))
			if err != nil {
				t.Fatal(err)
			}
			if encrypted := bytes.Contains(errored, []byte("encrypted_data")); encrypted != (c.encryption != "") {
				t.Fatalf("errored.tfstate is encrypted: %v", encrypted)
			}
			must("holdfast", "state", "push", "shop", "errored.tfstate", "--dry-run")
			must("holdfast", "state", "push", "shop", "errored.tfstate")
			var got bytes.Buffer
			server := w.client(t, adminToken)
			st, err := server.State(t.Context(), "shop")
			if err != nil || st.Lock != nil || st.ClientEncrypted != (c.encryption != "") {
				t.Fatalf("the state is %+v, %v", st, err)
			}
			if _, err := server.PullState(t.Context(), "shop", st.Version, st.SHA256, &got); err != nil || !bytes.Equal(got.Bytes(), errored) {
				t.Errorf("stored are %d bytes, %v; want the %d of the file", got.Len(), err, len(errored))
			}
			must(c.tool, "plan", "-detailed-exitcode", "-no-color")
		})
	}
}

// TestDeleteAsksForTheName types a wrong name and then the right one.
func TestDeleteAsksForTheName(t *testing.T) {
	w := newWorkplace(t)
	server := w.client(t, adminToken)
	w.write(t, "x.tfstate", `{"version": 4, "serial": 1, "lineage": "l"}`)
	if out, err := (&exec.Cmd{Path: lookHoldfast(t), Args: []string{"holdfast", "state", "import", "net", filepath.Join(w.dir, "x.tfstate")}, Env: w.environ}).CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	for _, c := range []struct {
		typed string
		code  int
		gone  bool
	}{{"yes\n", 3, false}, {"net\n", 0, true}} {
		term := onTerminal(t, w.environ, "state", "delete", "net")
		term.expect("Type its name: ")
		term.send(c.typed)
		term.exit(c.code)
		if st, err := server.State(t.Context(), "net"); err != nil || (st.DeletedAt != nil) != c.gone {
			t.Errorf("after typing %q: %+v, %v", c.typed, st, err)
		}
	}
}

func lookHoldfast(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
