package run_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

func twoComponents() run.Run {
	made := func(name string) run.Component {
		return run.Component{
			Name: name, StateID: "sta_" + name, Inputs: json.RawMessage(`{"size":1}`), Source: run.Source{SHA256: "source of " + name},
			Plan: &run.Plan{
				Digest: "sha256:" + name, View: json.RawMessage(`{"changes":[]}`), LockFile: "lock", ConfigHash: "config", BaseSHA256: "base",
				Tool: "tofu", Version: "1.12.6",
			},
		}
	}
	return run.Run{ID: "run_1", Kind: run.Deploy, Components: []run.Component{made("api"), made("database")}}
}

func digest(t rapid.TB, r run.Run) string {
	t.Helper()
	d, err := run.PlanDigest(r)
	if err != nil {
		t.Fatalf("PlanDigest: %v", err)
	}
	if !strings.HasPrefix(d, "sha256:") || len(d) != len("sha256:")+64 {
		t.Fatalf("PlanDigest = %q, want sha256: and 64 digits", d)
	}
	return d
}

// R03, R04: whatever a plan was made from is part of what an approval names.
func TestR03EveryPartChangesTheDigest(t *testing.T) {
	before := digest(t, twoComponents())
	seen := map[string]string{before: "nothing"}
	for what, change := range map[string]func(*run.Run){
		"kind":        func(r *run.Run) { r.Kind = run.Destroy },
		"name":        func(r *run.Run) { r.Components[0].Name = "aqi" },
		"state":       func(r *run.Run) { r.Components[0].StateID = "sta_other" },
		"plan file":   func(r *run.Run) { r.Components[0].Plan.Digest = "sha256:other" },
		"view":        func(r *run.Run) { r.Components[0].Plan.View = json.RawMessage(`{"changes":[1]}`) },
		"source":      func(r *run.Run) { r.Components[0].Source.SHA256 = "other" },
		"input":       func(r *run.Run) { r.Components[0].Inputs = json.RawMessage(`{"size":2}`) },
		"lock file":   func(r *run.Run) { r.Components[0].Plan.LockFile = "other" },
		"root":        func(r *run.Run) { r.Components[0].Plan.ConfigHash = "other" },
		"base state":  func(r *run.Run) { r.Components[0].Plan.BaseSHA256 = "other" },
		"tool":        func(r *run.Run) { r.Components[0].Plan.Tool = "terraform" },
		"version":     func(r *run.Run) { r.Components[0].Plan.Version = "1.12.7" },
		"one of two":  func(r *run.Run) { r.Components = r.Components[:1] },
		"second plan": func(r *run.Run) { r.Components[1].Plan.Digest = "sha256:other" },
		"field borders": func(r *run.Run) {
			r.Components[0].Plan.LockFile, r.Components[0].Plan.ConfigHash = "lockc", "onfig"
		},
	} {
		r := twoComponents()
		change(&r)
		after := digest(t, r)
		if other, ok := seen[after]; ok {
			t.Errorf("a change of %s gives the digest of a change of %s", what, other)
		}
		seen[after] = what
	}
}

func TestDigestIgnoresWhatIsNoContent(t *testing.T) {
	before := digest(t, twoComponents())
	for what, change := range map[string]func(*run.Run){
		"order of components":  func(r *run.Run) { slices.Reverse(r.Components) },
		"space in the inputs":  func(r *run.Run) { r.Components[0].Inputs = json.RawMessage(" { \"size\" : 1 } ") },
		"space in the view":    func(r *run.Run) { r.Components[0].Plan.View = json.RawMessage("{\n \"changes\": []}") },
		"status and message":   func(r *run.Run) { r.Status, r.Message = run.Applying, "x" },
		"where the plan lies":  func(r *run.Run) { r.Components[0].Plan.Object = "obj_1" },
		"the approval":         func(r *run.Run) { r.Approval.Digest = "sha256:x" },
		"the run's own digest": func(r *run.Run) { r.PlanDigest = "sha256:x" },
	} {
		r := twoComponents()
		change(&r)
		if after := digest(t, r); after != before {
			t.Errorf("%s changed the digest", what)
		}
	}
}

func TestDigestNeedsEveryPlan(t *testing.T) {
	r := twoComponents()
	r.Components[1].Plan = nil
	if d, err := run.PlanDigest(r); err == nil {
		t.Errorf("the digest of a run that is not planned = %s, want an error", d)
	}
	r = twoComponents()
	r.Components[0].Inputs = json.RawMessage(`[1]`)
	if d, err := run.PlanDigest(r); err == nil {
		t.Errorf("the digest with inputs that are a list = %s, want an error", d)
	}
}

func TestCanonicalObject(t *testing.T) {
	for in, want := range map[string]string{
		``: `{}`, ` `: `{}`, `{}`: `{}`,
		`{"b":1,"a":[2, 3]}`:               `{"a":[2,3],"b":1}`,
		`{"n":12345678901234567890}`:       `{"n":12345678901234567890}`,
		`{"n":1.10,"m":1e400}`:             `{"m":1e400,"n":1.10}`,
		`{"a":1,"a":2}`:                    `{"a":2}`,
		`{"a":{"z":null,"y":"\u00e9<&>"}}`: `{"a":{"y":"é\u003c\u0026\u003e","z":null}}`,
	} {
		got, err := run.CanonicalObject(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("CanonicalObject(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{`[]`, `null`, `1`, `"a"`, `{`, `{} {}`, `{}x`, `{"a":}`} {
		if got, err := run.CanonicalObject(json.RawMessage(in)); !fault.Is(err, fault.Invalid) {
			t.Errorf("CanonicalObject(%s) = %s, %v, want it refused", in, got, err)
		}
	}
}

// Canonical is canonical: once more changes nothing, and nor does what a JSON encoder may do on the way.
func TestCanonicalObjectRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Float64(), func(f float64) any { return f }), rapid.Map(rapid.SliceOf(rapid.Bool()), func(b []bool) any { return b })))
		raw, err := json.Marshal(values.Draw(t, "object"))
		if err != nil {
			t.Skip() // rapid draws another value
		}
		once, err := run.CanonicalObject(raw)
		if err != nil {
			t.Fatalf("CanonicalObject(%s): %v", raw, err)
		}
		indented := bytes.Buffer{}
		if err := json.Indent(&indented, once, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		for _, again := range [][]byte{once, indented.Bytes()} {
			twice, err := run.CanonicalObject(again)
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("CanonicalObject(%s) = %s, %v, want %s", again, twice, err, once)
			}
		}
	})
}
