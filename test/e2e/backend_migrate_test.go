package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"holdfast.dev/holdfast/internal/testkit/s3test"
)

const stateBucket = "states"

// s3Backend is a configuration's backend block for a key in the bucket of an S3 server.
func s3Backend(s *s3test.Server, key string) string {
	return fmt.Sprintf(`terraform {
  backend "s3" {
    bucket                      = %q
    key                         = %q
    region                      = %q
    endpoints                   = { s3 = %q }
    use_path_style              = true
    use_lockfile                = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
    skip_metadata_api_check     = true
    skip_region_validation      = true
  }
}
`, stateBucket, key, s3test.Region, s.Endpoint)
}

const localBackend = "terraform {\n  backend \"local\" {}\n}\n"

// A team's states move in and out by the tools' own means, from and to a file and a bucket: what the document says of the
// world stays byte for byte, no plan sees a change, and Holdfast's own state of it is whole and unlocked. The tools
// themselves begin a new lineage with serial 1 where they migrate to a backend that has none; `holdfast state import` and
// `export` keep both.
func TestBackendMigration(t *testing.T) {
	bucket := s3test.Start(t, stateBucket)
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			for from, backend := range map[string]string{"local": localBackend, "s3": s3Backend(bucket, t.Name())} {
				t.Run(from, func(t *testing.T) {
					migrate(t, s, tool, fmt.Sprintf("moved-%s-%s", from, filepath.Base(tool)), backend)
				})
			}
		})
	})
}

func migrate(t *testing.T, s *backendServer, tool, name, elsewhere string) {
	w := newWorkdir(t, s, tool, name, s.token, oneResource, (&s3test.Server{}).Environ()...)
	settle := func(backend string) {
		t.Helper()
		w.write(t, "main.tf", backend+oneResource)
		w.run(t, "init", "-no-color", "-input=false", "-migrate-state", "-force-copy")
		w.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode") // 2 where there are changes
	}
	w.write(t, "main.tf", elsewhere+oneResource)
	w.run(t, "init", "-no-color", "-input=false")
	w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
	w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=there")
	w.write(t, "terraform.tfvars", "text = \"there\"\n")
	before := w.pulled(t)

	settle(httpBackend)
	in := w.pulled(t)
	if in.content != before.content {
		t.Errorf("moved in, state pull gives\n%s\nwant\n%s", in.content, before.content)
	}
	v := s.state(t, name)
	if v.Version != 1 || v.Lock != nil || v.Serial == nil || *v.Serial != in.serial || v.Lineage != in.lineage {
		t.Errorf("moved in: %+v, want version 1 with serial %d and lineage %s, and no lock", v, in.serial, in.lineage)
	}

	w.write(t, "terraform.tfvars", "text = \"here\"\n")
	w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
	before = w.pulled(t)
	settle(elsewhere)
	if out := w.pulled(t); out.content != before.content || out.lineage != before.lineage || out.serial < before.serial {
		t.Errorf("moved out, state pull gives %+v\nwant %+v, or a higher serial", out, before)
	}
	w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=elsewhere")
	if v := s.state(t, name); v.Version != 2 || v.Lock != nil || *v.Serial != before.serial {
		t.Errorf("after it was moved out and changed elsewhere: %+v, want it as it was", v)
	}
}

// pulled is a document as a tool prints it.
type pulled struct {
	serial  uint64
	lineage string
	sha256  string
	content string // without serial and lineage
}

var identity = regexp.MustCompile(`"(serial|lineage)":\s*("[^"]*"|[0-9]+),\s*`)

func (w *workdir) pulled(t *testing.T) pulled {
	t.Helper()
	text := w.run(t, "state", "pull")
	var doc struct {
		Serial  uint64
		Lineage string
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return pulled{doc.Serial, doc.Lineage, fmt.Sprintf("%x", sha256.Sum256([]byte(text))), identity.ReplaceAllString(text, "")}
}

// What is exported is what is stored, and a folder with that file for its state goes on from there, with equal bytes.
func TestExportToLocalFile(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			name := "exported-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, s.token, oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
			before, v := w.pulled(t), s.state(t, name)
			s.cli(t, false, "state", "export", name, w.dir)
			file, err := os.ReadFile(filepath.Join(w.dir, name+".tfstate"))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(file)); got != v.SHA256 {
				t.Errorf("the exported file has SHA-256 %s, the state %s", got, v.SHA256)
			}
			w.write(t, "main.tf", fmt.Sprintf("terraform {\n  backend \"local\" {\n    path = %q\n  }\n}\n", name+".tfstate")+oneResource)
			w.run(t, "init", "-no-color", "-input=false", "-reconfigure")
			if after := w.pulled(t); after != before {
				t.Errorf("moved out, state pull gives %+v\nwant %+v", after, before)
			}
			w.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode")
		})
	})
}

// A folder whose state is in a bucket is imported by the command line, byte for byte as the tool prints it, and from
// then on planned here.
func TestImportFromBucket(t *testing.T) {
	bucket := s3test.Start(t, stateBucket)
	onEachStore(t, func(t *testing.T, s *backendServer) {
		eachTool(t, func(t *testing.T, tool string) {
			name := "imported-" + filepath.Base(tool)
			w := newWorkdir(t, s, tool, name, s.token, oneResource, (&s3test.Server{}).Environ()...)
			w.write(t, "main.tf", s3Backend(bucket, t.Name())+oneResource)
			w.run(t, "init", "-no-color", "-input=false")
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve")
			before := w.pulled(t)

			env := append((&s3test.Server{}).Environ(), "HOLDFAST_TOFU_BIN="+tool, "CHECKPOINT_DISABLE=1")
			s.cliIn(t, env, false, "state", "import", name, "--from-backend", w.dir, "--dry-run")
			if status, _ := s.ask(t, s.token, "GET", "/api/tf-states/"+name, ""); status != 404 {
				t.Fatalf("a dry run made a state: %d", status)
			}
			s.cliIn(t, env, false, "state", "import", name, "--from-backend", w.dir)
			s.cliIn(t, env, false, "state", "import", name, "--from-backend", w.dir) // done already
			v := s.state(t, name)
			if v.Version != 1 || v.SHA256 != before.sha256 || *v.Serial != before.serial || v.Lineage != before.lineage {
				t.Errorf("imported %+v, want version 1 of what state pull prints: %+v", v, before)
			}
			if vs := s.versions(t, name); len(vs) != 1 || vs[0].Source != "import" {
				t.Errorf("versions %+v, want one with the source import", vs)
			}
			w.write(t, "main.tf", httpBackend+oneResource)
			w.run(t, "init", "-no-color", "-input=false", "-reconfigure")
			w.run(t, "plan", "-no-color", "-input=false", "-detailed-exitcode")
			w.run(t, "apply", "-no-color", "-input=false", "-auto-approve", "-var=text=there")
			if v := s.state(t, name); v.Version != 2 || *v.Serial != before.serial+1 || v.Lineage != before.lineage {
				t.Errorf("the next apply: %+v, want version 2 with the next serial", v)
			}
		})
	})
}
