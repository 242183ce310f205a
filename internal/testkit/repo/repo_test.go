package repo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootIsTheRepository(t *testing.T) {
	dir, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tools", "go.mod")); err != nil {
		t.Fatalf("Root = %s, which is not the repository: %v", dir, err)
	}
}

func TestBuiltSaysHow(t *testing.T) {
	_, err := Built("nothing-of-this-name", "scripts/tool nothing")
	if err == nil || !strings.Contains(err.Error(), "scripts/tool nothing") {
		t.Errorf("got %v, want what builds it", err)
	}
}
