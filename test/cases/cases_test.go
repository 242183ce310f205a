// Package cases_test proves that the tests which docs/contributing/cases.md names exist and speak of their cases.
package cases_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// required are the cases that the server answers for.
const required = "W1 W2 W3 W4 W8 W9 L01 L02 L04 L05 L07 L08 L09 L11 L12 S01 S02 S06 S08 S09 S10 S12 S16 S18 S19 S22 S24"

var (
	named = regexp.MustCompile("`([a-z0-9/]+)` (Test[A-Za-z0-9_]+)")
	isID  = regexp.MustCompile(`^[LSW][0-9]+$`)
)

func TestNamedTestsExist(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs", "contributing", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, id := range strings.Fields(required) {
		missing[id] = true
	}
	sources := map[string]map[string]string{}
	rows := 0
	for _, line := range strings.Split(string(doc), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || len(tests) == 0 {
			continue
		}
		rows++
		id := cells[0]
		delete(missing, id)
		for _, n := range tests {
			dir, name := n[1], n[2]
			if sources[dir] == nil {
				sources[dir] = testsOf(t, dir)
			}
			source, ok := sources[dir][name]
			switch {
			case !ok:
				t.Errorf("%s: %s has no %s", id, dir, name)
			case isID.MatchString(id) && !strings.Contains(source, id):
				t.Errorf("%s: %s in %s does not say that it is of this case", id, name, dir)
			}
		}
	}
	for id := range missing {
		t.Errorf("%s has no row with a test", id)
	}
	if rows < len(strings.Fields(required)) {
		t.Errorf("%d rows were read", rows)
	}
}

// testsOf gives the source of each test in a package's folder, with its comment, by name.
func testsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	found := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			from := f.Pos()
			if f.Doc != nil {
				from = f.Doc.Pos()
			}
			found[f.Name.Name] = string(text[set.Position(from).Offset:set.Position(f.End()).Offset])
		}
	}
	return found
}
