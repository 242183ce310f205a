package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed is every package outside the standard library that the broker may link. A new one is a decision: the broker
// has the token, so it reads nothing of a customer's: no configuration, no plan, no output of the tool.
var allowed = []string{
	"holdfast.dev/holdfast/cmd/holdfast-agent",
	"holdfast.dev/holdfast/internal/api",
	"holdfast.dev/holdfast/internal/broker",
	"holdfast.dev/holdfast/internal/broker/internal/platform",
	"holdfast.dev/holdfast/internal/broker/internal/relay",
	"holdfast.dev/holdfast/internal/config",
	"holdfast.dev/holdfast/internal/fault",
	"holdfast.dev/holdfast/internal/id",
	"holdfast.dev/holdfast/internal/link",
	"holdfast.dev/holdfast/internal/redact",
	"golang.org/x/sys/unix",
}

func TestTheBrokerLinksNothingThatReadsCustomerCode(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	paths := strings.Fields(string(out))
	if len(paths) < len(allowed) {
		t.Fatalf("go list named %d packages; that cannot be all", len(paths))
	}
	for _, path := range paths {
		if !slices.Contains(allowed, path) && !strings.HasPrefix(path, "vendor/") {
			t.Errorf("the broker links %s, which is not on the list of what it may link", path)
		}
	}
}
