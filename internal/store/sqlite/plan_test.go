package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/store"
)

// queries are the generated ones, by name.
func queries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../db/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("generated files: %v, %v", files, err)
	}
	found := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			value, ok := n.(*ast.ValueSpec)
			if !ok || len(value.Values) != 1 {
				return true
			}
			if literal, ok := value.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "-- name:") {
					found[value.Names[0].Name] = text
				}
			}
			return true
		})
	}
	return found
}

// TestQueriesUseIndexes: what reads a whole table, or sorts, gets slower with every row that is ever stored.
func TestQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.db")
	d, err := open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	all := queries(t)
	if len(all) < 80 {
		t.Fatalf("%d queries found, want all of them", len(all))
	}
	all["nextTask"] = `SELECT id FROM tasks WHERE account = $1 AND status = 'ready' ORDER BY created_at, place, id LIMIT 1`
	all["abandoned"] = "SELECT object FROM staged WHERE staged_at < $1 ORDER BY staged_at LIMIT $2"
	number := regexp.MustCompile(`\$(\d+)`)
	// Values without a table, and a subquery with at most one row.
	harmless := regexp.MustCompile(`^SCAN CONSTANT ROW`)
	// The components of one run are few, and found by its id.
	few := map[string]bool{"components": true, "componentsInBrief": true}
	// An administrator asks it during a rewrap, which reads every object anyway; an index would cost each save.
	delete(all, "keyUses")
	for name, text := range all {
		args := 0
		for _, m := range number.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			args = max(args, n)
		}
		rows, err := d.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, args)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(step, "TEMP B-TREE") && !few[name] || strings.HasPrefix(step, "SCAN") && !harmless.MatchString(step) {
				t.Errorf("%s: %s", name, step)
			}
		}
		if err := rows.Err(); err != nil {
			t.Error(err)
		}
	}
}
