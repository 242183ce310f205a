package storetest

import (
	_ "embed"
	"testing"

	"holdfast.dev/holdfast/internal/store"
)

// golden is the schema that the migrations make, on every database. It is reviewed with them.
//
//go:embed schema.golden
var golden string

// Schema compares the schema of a store with the one on record.
func Schema(t *testing.T, s *store.Store) {
	got, err := s.Schema(t.Context())
	if err != nil {
		t.Fatalf("schema: %v", err)
	}
	if got != golden {
		same(t, "schema", got, golden)
		t.Log("where the change is meant, write what was got to internal/store/storetest/schema.golden")
	}
}
