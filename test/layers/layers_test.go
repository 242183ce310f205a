// Package layers_test proves on the import graph what docs/contributing/architecture.md says: arrows point down.
package layers_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "holdfast.dev/holdfast/"

// layers are the packages from the ground up. A package may import those of its own layer and of the layers that its
// layer names, and no others of ours.
var layers = []struct {
	name     string
	packages []string
	below    []string
	apart    bool // its packages do not import one another
}{
	{name: "contract", packages: []string{"internal/api"}},
	{name: "ground", packages: []string{"internal/fault", "internal/id", "internal/config", "internal/redact", "internal/tofu", "internal/link"}},
	{
		name:     "rules",
		packages: []string{"internal/access", "internal/audit", "internal/state", "internal/run", "internal/plan", "internal/source", "internal/stack", "internal/keyring", "internal/backup"},
		below:    []string{"ground"},
	},
	{name: "use cases", packages: []string{"internal/engine"}, below: []string{"ground", "rules"}},
	{
		name: "adapters", apart: true, below: []string{"contract", "ground", "rules", "use cases"},
		packages: []string{"internal/store", "internal/jobs", "internal/blob", "internal/transit", "internal/httpapi", "internal/client"},
	},
	{name: "broker", packages: []string{"internal/broker"}, below: []string{"contract", "ground"}},
	{name: "worker", packages: []string{"internal/worker"}, below: []string{"ground", "rules"}},
	{name: "page", packages: []string{"web", "examples"}},
	{
		name: "roots", packages: []string{"internal/app", "internal/cli"},
		below: []string{"contract", "ground", "rules", "use cases", "adapters", "page"},
	},
	{name: "programs", packages: []string{"cmd"}, below: []string{"ground", "broker", "worker", "roots"}},
}

// layer finds the layer and the entry of a package; folders below an entry belong to it.
func layer(pkg string) (int, string) {
	for i, l := range layers {
		for _, p := range l.packages {
			if pkg == p || strings.HasPrefix(pkg, p+"/") {
				return i, p
			}
		}
	}
	return -1, ""
}

func TestArrowsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		if top, _, _ := strings.Cut(from, "/"); top == "test" || strings.HasPrefix(from, "internal/testkit") || strings.HasPrefix(from, "web/tests/") || path.Base(from) == "storetest" {
			continue // tests see everything
		}
		at, entry := layer(from)
		if at < 0 {
			t.Errorf("package %s stands in no layer; add it to this test and to the architecture document", from)
			continue
		}
		seen++
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if ours {
				check(t, from, at, entry, to)
			}
		}
	}
	if seen < 30 {
		t.Errorf("looked at %d packages, want all of them", seen)
	}
}

func check(t *testing.T, from string, at int, entry, to string) {
	t.Helper()
	under, target := layer(to)
	switch l := layers[at]; {
	case under < 0:
		t.Errorf("%s imports %s, which stands in no layer", from, to)
	case under == at && target != entry && l.apart:
		t.Errorf("%s imports %s; the %s do not know one another", from, to, l.name)
	case under != at && !slices.Contains(l.below, layers[under].name):
		t.Errorf("%s imports %s; the layer %q does not stand on %q", from, to, l.name, layers[under].name)
	}
}
