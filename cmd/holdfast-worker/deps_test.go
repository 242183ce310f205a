package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed is every package outside the standard library that the worker may link. A new one is a decision: the worker
// runs beside customer code, so it holds no client of the server, no database and no token.
var allowed = []string{
	"holdfast.dev/holdfast/cmd/holdfast-worker",
	"holdfast.dev/holdfast/internal/config",
	"holdfast.dev/holdfast/internal/fault",
	"holdfast.dev/holdfast/internal/id",
	"holdfast.dev/holdfast/internal/link",
	"holdfast.dev/holdfast/internal/plan",
	"holdfast.dev/holdfast/internal/redact",
	"holdfast.dev/holdfast/internal/source",
	"holdfast.dev/holdfast/internal/tofu",
	"holdfast.dev/holdfast/internal/worker",
	"holdfast.dev/holdfast/internal/worker/internal/executor",
	"holdfast.dev/holdfast/internal/worker/internal/sweep",
	"golang.org/x/sys/unix",
}

// allowedTrees are modules whose packages are allowed as a whole: they read configuration and archives.
var allowedTrees = []string{
	"github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty", "github.com/apparentlymart/go-textseg",
	"github.com/agext/levenshtein", "github.com/mitchellh/go-wordwrap", "github.com/klauspost/compress", "golang.org/x/text",
}

// unwanted are packages of the standard library that would be a way to the server.
var unwanted = []string{"net/http", "net/rpc", "database/sql", "crypto/tls"}

func TestTheWorkerLinksNothingOfTheServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}+{{end}}{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) < 50 {
		t.Fatalf("go list named %d packages; that cannot be all", len(lines))
	}
	for _, line := range lines {
		path, ours := strings.CutPrefix(line, "+")
		switch {
		case !ours && slices.Contains(unwanted, path):
			t.Errorf("the worker links %s", path)
		case !ours || strings.HasPrefix(path, "vendor/"):
		case slices.Contains(allowed, path):
		case slices.ContainsFunc(allowedTrees, func(tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }):
		default:
			t.Errorf("the worker links %s, which is not on the list of what it may link", path)
		}
	}
}
