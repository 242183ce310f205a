package state_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// The scanner takes for JSON exactly what encoding/json does: every document that differs from a good one by a byte put
// in, taken out or changed.
func TestScannerAgreesOnJSON(t *testing.T) {
	const base = `{"version":4,"x":[{"a":"b\u00e9\"\\/\n","c":-0.5e+3},[],{}, 10E-2,0,true,false,null,"\ud83d\uDE00"],"resources":[{"mode":"managed","instances":[{"attributes":{"n":1.25}}]}]}`
	const bytes = "{}[]:,\"\\/0159.+-eEufarxgGAZz`@ \t\n\x00\x1f\x7f"
	docs := []string{base, strings.Replace(base, ":", " : ", -1)}
	for i := range len(base) + 1 {
		if i < len(base) {
			docs = append(docs, base[:i]+base[i+1:], base[:i])
		}
		for _, c := range bytes {
			docs = append(docs, base[:i]+string(c)+base[i:])
			if i < len(base) {
				docs = append(docs, base[:i]+string(c)+base[i+1:])
			}
		}
	}
	for _, doc := range docs {
		_, err := scan(t, []byte(doc))
		valid := json.Valid([]byte(doc))
		if refused := fault.Code(err) == "invalid_json"; refused == valid {
			t.Fatalf("%s\nis JSON: %t, and the scanner says %v", doc, valid, err)
		}
	}
}

// A refusal names what is missing, or the limit.
func TestRefusalsNameWhatIsWrong(t *testing.T) {
	_, err := scan(t, []byte(`{"serial":1}`))
	if f := fault.From(err); !strings.Contains(f.Public, "neither a version nor encrypted data") {
		t.Errorf("%v, want what is missing named", err)
	}
	_, err = state.ParseLock([]byte(`{"ID":"` + strings.Repeat("x", state.MaxLockIDChars+1) + `"}`))
	if f := fault.From(err); !strings.Contains(f.Public, "255") {
		t.Errorf("%v, want the limit named", err)
	}
}
