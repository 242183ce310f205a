package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

var tools = []string{"opentofu", "terraform"}

const canary = "canary-4711-token"

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func reduce(t testing.TB, doc string, known ...string) *View {
	t.Helper()
	var list []redact.Secret
	for _, k := range known {
		list = append(list, redact.NewSecret(k))
	}
	v, err := Reduce(strings.NewReader(doc), list...)
	if err != nil {
		t.Fatalf("Reduce: %v", err)
	}
	return v
}

// each runs f on a recorded plan of both tools.
func each(t *testing.T, name string, f func(*testing.T, *View)) {
	t.Helper()
	for _, tool := range tools {
		t.Run(tool+"/"+name, func(t *testing.T) { f(t, reduce(t, string(load(t, tool+"."+name)))) })
	}
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestR06_ActionClasses(t *testing.T) {
	each(t, "classes", func(t *testing.T, v *View) {
		want := Counts{Change: 1, Destroy: 1, Replace: 2, Import: 1, Move: 1, Forget: 1, Outputs: 1}
		if v.Counts != want {
			t.Errorf("counts = %+v, want %+v", v.Counts, want)
		}
		if got := v.Destroys(); got != 3 {
			t.Errorf("Destroys() = %d, want 3: replacements count", got)
		}
		var got []string
		for _, c := range v.Changes {
			s := fmt.Sprintf("%s %s", c.Class, c.Address)
			if c.CreateFirst {
				s += " create first"
			}
			got = append(got, s)
		}
		wantOrder := []string{
			"delete terraform_data.deleted", "replace terraform_data.first create first", "replace terraform_data.replace",
			"forget terraform_data.forgotten", "update terraform_data.update", "import terraform_data.imported", "move terraform_data.new",
		}
		if !slices.Equal(got, wantOrder) {
			t.Errorf("changes:\n got %q\nwant %q", got, wantOrder)
		}
		if v.Risk() != RiskHigh || !v.Applyable() {
			t.Errorf("risk %s, applyable %v", v.Risk(), v.Applyable())
		}
		if got := v.Changes[1].ReplacePaths; !slices.Equal(got, []string{"triggers_replace"}) {
			t.Errorf("replace paths = %q", got)
		}
		if got := v.Changes[5].Importing; got != "imported-id-1" {
			t.Errorf("importing = %q", got)
		}
		if got := v.Changes[6].PreviousAddress; got != "terraform_data.old" {
			t.Errorf("previous address = %q", got)
		}
	})
}

func TestR07_StateOnlyPlansAreNotEmpty(t *testing.T) {
	for _, tc := range []struct {
		name string
		want Counts
		risk Risk
	}{
		{"move", Counts{Move: 1}, RiskLow},
		{"forget", Counts{Forget: 1}, RiskHigh},
		{"import", Counts{Import: 1}, RiskLow},
		{"output", Counts{Outputs: 1}, RiskLow},
	} {
		each(t, tc.name, func(t *testing.T, v *View) {
			if v.Counts != tc.want || !v.HasChanges() || !v.Applyable() || v.Risk() != tc.risk || v.Drifted != 0 {
				t.Errorf("%+v, changes %v, applyable %v, risk %s, drifted %d", v.Counts, v.HasChanges(), v.Applyable(), v.Risk(), v.Drifted)
			}
		})
	}
}

func TestPlansOfOneKind(t *testing.T) {
	for _, tc := range []struct {
		name       string
		want       Counts
		risk       Risk
		applyable  bool
		operations int
	}{
		{"create", Counts{Add: 1, Outputs: 1}, RiskLow, true, 1},
		{"nothing", Counts{}, RiskNone, false, 0},
		{"refresh", Counts{}, RiskNone, false, 0},
		{"destroy", Counts{Destroy: 1}, RiskHigh, true, 1},
		{"replace", Counts{Replace: 1}, RiskHigh, true, 2},
	} {
		each(t, tc.name, func(t *testing.T, v *View) {
			if v.Counts != tc.want || v.Risk() != tc.risk || v.Applyable() != tc.applyable || v.Operations() != tc.operations {
				t.Errorf("%+v, risk %s, applyable %v, %d operations", v.Counts, v.Risk(), v.Applyable(), v.Operations())
			}
		})
	}
	kept := reduce(t, string(load(t, "opentofu.kept")))
	if want := (Counts{Add: 1, Forget: 1}); kept.Counts != want || kept.Changes[0].Class != ForgetCreate || kept.Destroys() != 0 || kept.Risk() != RiskHigh {
		t.Errorf("kept: %+v %s, destroys %d, risk %s", kept.Counts, kept.Changes[0].Class, kept.Destroys(), kept.Risk())
	}
}

func TestR31_PlanWithFailingConditions(t *testing.T) {
	each(t, "errored", func(t *testing.T, v *View) {
		if !v.Errored || v.Applyable() || v.Risk() != RiskHigh {
			t.Errorf("errored %v, applyable %v, risk %s", v.Errored, v.Applyable(), v.Risk())
		}
		if err := Permits(v, v); fault.Code(err) != "plan_incomplete" {
			t.Errorf("Permits = %v, want a refusal", err)
		}
		if got := v.Event("api").String(); got != "WARN  [phase:plan] api: could not be planned" {
			t.Errorf("event = %q", got)
		}
	})
	each(t, "check", func(t *testing.T, v *View) {
		if v.Errored || v.HasChanges() || len(v.Checks) != 1 || v.Checks[0].Address != "check.warns" || v.Checks[0].Messages[0] != "the check warns" {
			t.Errorf("errored %v, checks %+v", v.Errored, v.Checks)
		}
	})
	for _, doc := range []string{
		`{"format_version":"1.2","complete":false,"resource_changes":[{"address":"a.b","change":{"actions":["create"]}}]}`,
		`{"format_version":"1.2","deferred_changes":[{}],"resource_changes":[{"address":"a.b","change":{"actions":["create"]}}]}`,
	} {
		if v := reduce(t, doc); !v.Incomplete || v.Applyable() || v.Risk() != RiskHigh {
			t.Errorf("%s: incomplete %v, applyable %v, risk %s", doc, v.Incomplete, v.Applyable(), v.Risk())
		}
	}
}

func TestR11_W16_SensitiveValuesAreNeverSent(t *testing.T) {
	for _, tool := range tools {
		doc := load(t, tool+".sensitive")
		if n := bytes.Count(doc, []byte(canary)); n < 8 {
			t.Fatalf("%s: the recorded plan holds the canary %d times only", tool, n)
		}
		v := reduce(t, string(doc))
		got := toJSON(t, v)
		encoded := base64.StdEncoding.EncodeToString([]byte("u:" + canary))
		for _, bad := range []string{canary, encoded, encoded[4:20]} {
			if strings.Contains(got, bad) {
				t.Errorf("%s: the view holds %q:\n%s", tool, bad, got)
			}
		}
		marked := 0
		for _, c := range v.Changes {
			for _, a := range c.Attributes {
				if a.Sensitive {
					marked++
				}
			}
		}
		if marked != 3 { // s.input, and the two built from it
			t.Errorf("%s: %d attributes are marked, want 3\n%s", tool, marked, got)
		}
		if !v.OutputChanges[1].Sensitive || !v.OutputChanges[0].Attributes[0].Sensitive {
			t.Errorf("%s: outputs %+v", tool, v.OutputChanges)
		}
		if text := v.Event("x").Text; strings.Contains(text, canary) {
			t.Errorf("%s: event %q", tool, text)
		}
	}
}

// change makes a plan document of one update.
func change(body string) string {
	return `{"format_version":"1.2","resource_changes":[{"address":"a.b","mode":"managed","type":"a","name":"b","change":{"actions":["update"],` + body + `}}]}`
}

func TestR11_Marks(t *testing.T) {
	const secret = "s3cr3t-value"
	for _, tc := range []struct{ name, doc string }{
		{"marked in before", change(`"before":{"p":"s3cr3t-value"},"after":{"p":"x"},"before_sensitive":{"p":true},"after_sensitive":{}`)},
		{"marked in after", change(`"before":{"p":"x"},"after":{"p":"s3cr3t-value"},"before_sensitive":{},"after_sensitive":{"p":true}`)},
		{"whole resource", change(`"before":{"p":"x"},"after":{"p":"s3cr3t-value"},"after_sensitive":true`)},
		{"in a list", change(`"before":{"l":["x"]},"after":{"l":["x","s3cr3t-value"]},"after_sensitive":{"l":[false,true]}`)},
		{"set with an incomplete map, copy elsewhere", change(`"before":{},"after":{"p":"s3cr3t-value","copy":"s3cr3t-value"},"after_sensitive":{"p":true}`)},
		{"tree that becomes unknown", change(`"before":{"o":{"p":"s3cr3t-value","q":"abc"}},"after":{},"after_unknown":{"o":true},"before_sensitive":{"o":{"p":true}}`)},
		{"as a key", change(`"before":{},"after":{"p":"s3cr3t-value","m":{"s3cr3t-value":1}},"after_sensitive":{"p":true}`)},
		{"variable", strings.TrimSuffix(change(`"before":{},"after":{"p":"s3cr3t-value"}`), "}") +
			`,"variables":{"v":{"value":{"deep":["s3cr3t-value"]}}},"configuration":{"root_module":{"variables":{"v":{"sensitive":true}}}}}`},
		{"ephemeral variable", strings.TrimSuffix(change(`"before":{},"after":{"p":"s3cr3t-value"}`), "}") +
			`,"variables":{"v":{"value":"s3cr3t-value"}},"configuration":{"root_module":{"variables":{"v":{"ephemeral":true}}}}}`},
		{"data source of the prior state", strings.TrimSuffix(change(`"before":{},"after":{"p":"s3cr3t-value"}`), "}") +
			`,"prior_state":{"values":{"root_module":{"child_modules":[{"child_modules":[{"resources":[{"values":{"v":"s3cr3t-value"},"sensitive_values":{"v":true}}]}]}]}}}}`},
		{"output of the prior state", strings.TrimSuffix(change(`"before":{},"after":{"p":"s3cr3t-value"}`), "}") +
			`,"prior_state":{"values":{"outputs":{"o":{"sensitive":true,"value":"s3cr3t-value"}}}}}`},
		{"drift", `{"format_version":"1.2","resource_drift":[{"address":"a[\"s3cr3t-value\"]","change":{"actions":["update"],"before":{"p":"x"},"after":{"p":"s3cr3t-value"},"after_sensitive":{"p":true}}}]}`},
		{"import id", change(`"importing":{"id":"s3cr3t-value"},"before":{"p":"x"},"after":{"p":"s3cr3t-value"},"after_sensitive":{"p":true}`)},
		{"check", strings.TrimSuffix(change(`"before":{"p":"x"},"after":{"p":"s3cr3t-value"},"after_sensitive":{"p":true}`), "}") +
			`,"checks":[{"address":{"to_display":"c"},"status":"fail","instances":[{"problems":[{"message":"is s3cr3t-value"}]}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := reduce(t, tc.doc)
			if got := toJSON(t, v); strings.Contains(got, secret) {
				t.Errorf("shown: %s", got)
			}
			if len(v.Changes)+len(v.Drift) != 1 {
				t.Errorf("the change itself is missing")
			}
		})
	}
	if got := toJSON(t, reduce(t, change(`"before":{},"after":{"p":"s3cr3t-value"}`), secret)); strings.Contains(got, secret) {
		t.Errorf("a secret the caller knows is shown: %s", got)
	}
	// A short secret is hidden where it is marked, and a large one as a whole value and within a tree.
	big := strings.Repeat("k", redact.MaxSecretBytes+1)
	for _, doc := range []string{
		change(`"before":{"o":{"p":"abc"}},"after":{},"after_unknown":{"o":true},"before_sensitive":{"o":{"p":true}}`),
		change(`"before":{"p":"x"},"after":{"p":"abc"},"after_sensitive":{"p":true}`),
		change(`"before":{"o":{"p":"abc"}},"after":{"o":{"p":"x"}},"before_sensitive":{"o":true}`),
		change(`"before":{"p":"x"},"after":{"p":"` + big + `","q":"` + big + `"},"after_sensitive":{"p":true}`),
		change(`"before":{"p":"x","t":{"q":"` + big + `"}},"after":{"p":"` + big + `"},"after_sensitive":{"p":true},"after_unknown":{"t":true}`),
	} {
		if got := toJSON(t, reduce(t, doc)); strings.Contains(got, "abc") || strings.Contains(got, "kkk") {
			t.Errorf("%.300s\nshown: %.300s", doc, got)
		}
	}
}

func TestAttributes(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"scalars", `"before":{"a":1,"b":"x","c":true,"d":null},"after":{"a":2,"b":"x","c":false,"d":null}`, `a: 1 -> 2|c: true -> false`},
		{"big numbers", `"before":{"n":12345678901234567890},"after":{"n":12345678901234567891}`, `n: 12345678901234567890 -> 12345678901234567891`},
		{"nested", `"before":{"o":{"x":{"y":"a"}}},"after":{"o":{"x":{"y":"b"}}}`, `o.x.y: "a" -> "b"`},
		{"list grows and shrinks", `"before":{"l":[1,2,3]},"after":{"l":[1,4]}`, `l[1]: 2 -> 4|l[2]: 3 -> `},
		{"odd keys", `"before":{"tags":{"a b":"1","c":"1"}},"after":{"tags":{"a b":"2","c":"1"}}`, `tags["a b"]: "1" -> "2"`},
		{"key that is not an identifier at the top", `"before":{"1":"a"},"after":{"1":"b"}`, `["1"]: "a" -> "b"`},
		{"set and unset", `"before":{"a":null,"b":"x"},"after":{"a":"y","b":null}`, `a: null -> "y"|b: "x" -> null`},
		{"empty becomes full", `"before":{"l":[],"m":{}},"after":{"l":["x"],"m":{"k":"v"}}`, `l[0]:  -> "x"|m.k:  -> "v"`},
		{"full becomes empty", `"before":{"l":["x"]},"after":{"l":[]}`, `l[0]: "x" -> `},
		{"null becomes empty", `"before":{"l":null},"after":{"l":[]}`, `l: null -> []`},
		{"other type", `"before":{"v":[1]},"after":{"v":{"a":1}}`, `v: [1] -> {"a":1}`},
		{"unknown", `"before":{"id":"x"},"after":{},"after_unknown":{"id":true}`, `id: "x" -> ?`},
		{"unknown within", `"before":{"o":{"a":"1","b":"1"}},"after":{"o":{"a":"1"}},"after_unknown":{"o":{"b":true}}`, `o.b: "1" -> ?`},
		{"unknown new key", `"before":{"o":{"a":"1"}},"after":{"o":{"a":"1"}},"after_unknown":{"o":{"b":true}}`, `o.b:  -> ?`},
		{"sensitive and unknown", `"before":{"p":"x"},"after":{},"after_unknown":{"p":true},"before_sensitive":{"p":true}`, `p: * ?`},
		{"only the mark changes", `"before":{"p":"x"},"after":{"p":"x"},"before_sensitive":{},"after_sensitive":{"p":true}`, `p: *`},
		{"sensitive and the same", `"before":{"p":"x"},"after":{"p":"x"},"before_sensitive":{"p":true},"after_sensitive":{"p":true}`, ``},
		{"markup", `"before":{"p":"a"},"after":{"p":"<b>&"}`, `p: "a" -> "<b>&"`},
		{"created", `"before":null,"after":{"a":"x","n":null,"l":["y"]}`, `a:  -> "x"|l[0]:  -> "y"`},
		{"deleted", `"before":{"a":"x","n":null},"after":null`, `a: "x" -> `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, a := range reduce(t, change(tc.body)).Changes[0].Attributes {
				switch {
				case a.Sensitive && a.Unknown:
					got = append(got, a.Path+": * ?")
				case a.Sensitive:
					got = append(got, a.Path+": *")
				case a.Unknown:
					got = append(got, a.Path+": "+a.Before+" -> ?")
				default:
					got = append(got, a.Path+": "+a.Before+" -> "+a.After)
				}
			}
			if s := strings.Join(got, "|"); s != tc.want {
				t.Errorf("got  %s\nwant %s", s, tc.want)
			}
		})
	}
}

func TestLongValuesAreCut(t *testing.T) {
	v := reduce(t, change(`"before":{"p":"x"},"after":{"p":"`+strings.Repeat("ä", 10_000)+`"}`))
	a := v.Changes[0].Attributes[0]
	var text string
	if err := json.Unmarshal([]byte(a.After), &text); err != nil || !a.Cut || len(text) > MaxValueBytes+4 || !strings.HasSuffix(text, "ä…") {
		t.Errorf("cut %v, %d bytes, %v, ends %q", a.Cut, len(text), err, text[len(text)-6:])
	}
	deep := strings.Repeat(`{"k":`, 200) + `"` + strings.Repeat("v", 5000) + `"` + strings.Repeat("}", 200)
	a = reduce(t, change(`"before":{},"after":{"p":`+deep+`}`)).Changes[0].Attributes[0]
	if !a.Cut || !json.Valid([]byte(a.After)) || len(a.After) > 2*MaxValueBytes {
		t.Errorf("deep: cut %v, %d bytes", a.Cut, len(a.After))
	}
}

func TestUnknownActionsAreDestructive(t *testing.T) {
	for _, actions := range []string{`["vaporize"]`, `[]`, `["update","delete"]`, `["delete","create","delete"]`, `["Create"]`} {
		v := reduce(t, `{"format_version":"1.9","resource_changes":[{"address":"z","change":{"actions":["create"]}},{"address":"a.b","change":{"actions":`+actions+`}}]}`)
		if v.Changes[0].Class != Unknown || v.Risk() != RiskHigh || v.Destroys() != 1 || v.Unknown != 1 {
			t.Errorf("%s: %s, risk %s, destroys %d", actions, v.Changes[0].Class, v.Risk(), v.Destroys())
		}
	}
}

func TestRoutineReplacements(t *testing.T) {
	doc := func(types ...string) string {
		var list []string
		for i, typ := range types {
			list = append(list, fmt.Sprintf(`{"address":"%s.x%d","type":"%s","change":{"actions":["delete","create"]}}`, typ, i, typ))
		}
		return `{"format_version":"1.2","resource_changes":[` + strings.Join(list, ",") + `]}`
	}
	const routine = "aws_ecs_task_definition"
	if v := reduce(t, doc(routine)); v.Risk() != RiskHigh || v.Risk(routine) != RiskLow || v.Destroys() != 1 {
		t.Errorf("one routine: %s, %s", v.Risk(), v.Risk(routine))
	}
	if v := reduce(t, doc(routine, "aws_lb")); v.Risk(routine) != RiskHigh {
		t.Errorf("routine beside another: %s", v.Risk(routine))
	}
	// A routine type that is destroyed and not replaced is no routine.
	v := reduce(t, `{"format_version":"1.2","resource_changes":[{"address":"x","type":"aws_ecs_task_definition","change":{"actions":["delete"]}}]}`)
	if v.Risk(routine) != RiskHigh {
		t.Errorf("deleted: %s", v.Risk(routine))
	}
}

func TestReadsAloneAreNothing(t *testing.T) {
	v := reduce(t, `{"format_version":"1.2","resource_changes":[{"address":"data.x.y","mode":"data","change":{"actions":["read"]},"action_reason":"read_because_check_nested"}]}`)
	if v.HasChanges() || v.Applyable() || v.Read != 1 || v.Risk() != RiskNone || len(v.Changes) != 1 {
		t.Errorf("%+v", v.Counts)
	}
}

func TestDrift(t *testing.T) {
	v := reduce(t, `{"format_version":"1.2","resource_drift":[
		{"address":"a.changed","change":{"actions":["update"],"before":{"x":1},"after":{"x":2}}},
		{"address":"a.gone","change":{"actions":["delete"],"before":{"x":1},"after":null}},
		{"address":"a.moved","previous_address":"a.old","change":{"actions":["no-op"]}}]}`)
	if v.Drifted != 2 || len(v.Drift) != 3 || v.Drift[0].Address != "a.gone" || v.HasChanges() || v.Risk() != RiskNone {
		t.Errorf("drifted %d, %+v", v.Drifted, v.Drift)
	}
}

func TestEvents(t *testing.T) {
	repl := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"address":"aws_lb_target_group.route[%02d]","change":{"actions":["delete","create"]}}`, i))
		}
		return `{"format_version":"1.2","resource_changes":[` + strings.Join(list, ",") + `]}`
	}
	for _, tc := range []struct{ doc, want string }{
		{change(`"before":{"a":1},"after":{"a":2}`), "INFO  [phase:plan] api: 0 to add, 1 to change, 0 to destroy"},
		{repl(1), "WARN  [phase:plan] api: 1 to add, 0 to change, 1 to destroy; replace aws_lb_target_group.route[00]"},
		{string(load(t, "opentofu.forget")), "WARN  [phase:plan] api: 0 to add, 0 to change, 0 to destroy, 1 to forget; forget terraform_data.old"},
		{string(load(t, "opentofu.output")), "INFO  [phase:plan] api: 0 to add, 0 to change, 0 to destroy, 1 output to change"},
		{
			`{"format_version":"1.2","resource_changes":[{"address":"a[\"\u001b[2J\u202e\"]","change":{"actions":["delete","create"]}}]}`,
			`WARN  [phase:plan] api: 1 to add, 0 to change, 1 to destroy; replace a["\x1b[2J\u202e"]`,
		},
	} {
		if got := reduce(t, tc.doc).Event("api").String(); got != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
	if got := reduce(t, repl(25)).Event("api").Text; !strings.HasSuffix(got, "route[09] and 15 more") {
		t.Errorf("many: %q", got)
	}
}

func TestPermits(t *testing.T) {
	doc := func(changes ...string) *View {
		return reduce(t, `{"format_version":"1.2","resource_changes":[`+strings.Join(changes, ",")+`]}`)
	}
	const (
		createA  = `{"address":"x.a","change":{"actions":["create"]}}`
		createB  = `{"address":"x.b","change":{"actions":["create"]}}`
		deleteA  = `{"address":"x.a","change":{"actions":["delete"]}}`
		replaceA = `{"address":"x.a","change":{"actions":["delete","create"]}}`
		firstA   = `{"address":"x.a","change":{"actions":["create","delete"]}}`
		deposedA = `{"address":"x.a","deposed":"00000001","change":{"actions":["delete"]}}`
		movedA   = `{"address":"x.a","previous_address":"x.old","change":{"actions":["no-op"]}}`
		movedA2  = `{"address":"x.a","previous_address":"x.other","change":{"actions":["no-op"]}}`
		importA  = `{"address":"x.a","change":{"actions":["no-op"],"importing":{"id":"1"}}}`
		importA2 = `{"address":"x.a","change":{"actions":["no-op"],"importing":{"id":"2"}}}`
		readD    = `{"address":"data.x.d","mode":"data","change":{"actions":["read"]}}`
		noopA    = `{"address":"x.a","change":{"actions":["no-op"]}}`
		updateA1 = `{"address":"x.a","change":{"actions":["update"],"before":{"v":1},"after":{"v":2}}}`
		updateA2 = `{"address":"x.a","change":{"actions":["update"],"before":{"v":1},"after":{"v":3}}}`
	)
	for _, tc := range []struct {
		name             string
		approved, actual *View
		permitted        bool
	}{
		{"the same", doc(createA, createB), doc(createB, createA), true},
		{"less", doc(createA, createB), doc(createA), true},
		{"nothing", doc(createA), doc(), true},
		{"a read more", doc(createA), doc(createA, readD), true},
		{"a no-op more", doc(), doc(noopA), true},
		{"more", doc(createA), doc(createA, createB), false},
		{"delete for create", doc(createA), doc(deleteA), false},
		{"replace for create", doc(createA), doc(replaceA), false},
		{"other order of a replacement", doc(replaceA), doc(firstA), false},
		{"deposed object", doc(deleteA), doc(deleteA, deposedA), false},
		{"moved from elsewhere", doc(movedA), doc(movedA2), false},
		{"imported from elsewhere", doc(importA), doc(importA2), false},
		{"something for nothing", doc(), doc(createA), false},
		{"other values", doc(updateA1), doc(updateA2), true}, // values are the plan file digest's matter
	} {
		err := Permits(tc.approved, tc.actual)
		if (err == nil) != tc.permitted || err != nil && (fault.Code(err) != "plan_exceeds_approval" || fault.From(err).Hint == "") {
			t.Errorf("%s: %v, want permitted %v", tc.name, err, tc.permitted)
		}
	}
	if err := Permits(doc(createA), doc(deleteA)); !strings.Contains(err.Error(), "delete x.a") {
		t.Errorf("the refusal names nothing: %v", err)
	}
	cut := doc(createA)
	cut.LeftOut = 1
	if err := Permits(cut, doc(createA, createB)); err == nil {
		t.Error("a truncated approval permits more")
	}
	if err := Permits(cut, doc(createA)); err != nil {
		t.Errorf("a truncated approval of the same refuses: %v", err)
	}
	if err := Permits(cut, doc(createA, readD)); err != nil {
		t.Errorf("a truncated approval refuses a read: %v", err)
	}
	hiding := doc(createA, createB)
	hiding.Changes, hiding.LeftOut = hiding.Changes[:1], 1
	if err := Permits(doc(createA), hiding); err == nil {
		t.Error("a truncated plan hides a change from the inspection")
	}
	var again View
	if err := json.Unmarshal([]byte(toJSON(t, doc(replaceA, movedA))), &again); err != nil {
		t.Fatal(err)
	}
	if err := Permits(&again, doc(movedA)); err != nil {
		t.Errorf("an approval that was stored and read again: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ doc, code string }{
		{`{"format_version":"2.0"}`, "plan_format"},
		{`{"format_version":"0.2"}`, "plan_format"},
		{`{"format_version":"10.0"}`, "plan_format"},
		{`{"resource_changes":[]}`, "plan_unreadable"},
		{`{}`, "plan_unreadable"},
		{``, "plan_unreadable"},
		{`[]`, "plan_unreadable"},
		{`{"format_version":1}`, "plan_unreadable"},
		{`{"format_version":"1.2","resource_changes":[{"address":"a"`, "plan_unreadable"},
		{`{"format_version":"1.2","resource_changes":{}}`, "plan_unreadable"},
		{`{"format_version":"1.2","resource_changes":[{"change":{"actions":"create"}}]}`, "plan_unreadable"},
		{`{"format_version":"1.2","errored":"no"}`, "plan_unreadable"},
		{`Error: no such file`, "plan_unreadable"},
	} {
		if _, err := Reduce(strings.NewReader(tc.doc)); fault.Code(err) != tc.code || fault.From(err).Hint == "" {
			t.Errorf("Reduce(%q) = %v, want %s", tc.doc, err, tc.code)
		}
	}
}

// large makes a plan of n resources, the last tenth of them deletions.
func large(n int) string {
	var b strings.Builder
	b.WriteString(`{"format_version":"1.2","terraform_version":"1.12.6","planned_values":{"root_module":{"resources":[0`)
	for i := range n {
		fmt.Fprintf(&b, `,{"address":"terraform_data.x[%d]","values":{"id":"%d","input":{"name":"resource number %d"}}}`, i, i, i)
	}
	b.WriteString(`]}},"resource_changes":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		before, after, actions := "null", fmt.Sprintf(`{"input":{"name":"resource number %d","list":["a","b","c"],"note":"%s"},"triggers_replace":null}`, i, strings.Repeat("n", 600)), "create"
		if i >= n*9/10 {
			before, after, actions = after, "null", "delete"
		}
		fmt.Fprintf(&b, `{"address":"terraform_data.x[%d]","mode":"managed","type":"terraform_data","name":"x","index":%d,"provider_name":"terraform.io/builtin/terraform","change":{"actions":["%s"],"before":%s,"after":%s,"after_unknown":{"id":true,"input":{"list":[false,false,false]},"output":true},"before_sensitive":false,"after_sensitive":{"input":{"list":[false,false,false]}}}}`,
			i, i, actions, before, after)
	}
	b.WriteString(`]}`)
	return b.String()
}

func TestViewIsBounded(t *testing.T) {
	v := reduce(t, large(MaxChanges+1000))
	if v.Add != 5400 || v.Destroy != 600 || len(v.Changes) != MaxChanges || v.LeftOut != 1000 || !v.Truncated {
		t.Errorf("add %d, destroy %d, listed %d, left out %d", v.Add, v.Destroy, len(v.Changes), v.LeftOut)
	}
	deleted := 0
	for _, c := range v.Changes {
		if c.Class == Delete {
			deleted++
			if len(c.Attributes) == 0 {
				t.Fatalf("%s lost its attributes to harmless changes", c.Address)
			}
		}
	}
	if deleted != 600 {
		t.Errorf("%d deletions are listed, want all 600", deleted)
	}
	if n := len(toJSON(t, v)); n > 2*MaxBytes {
		t.Errorf("the view has %d bytes", n)
	}
	var many []string
	for i := range MaxAttributes + 50 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	c := reduce(t, change(`"before":{},"after":{`+strings.Join(many, ",")+`}`)).Changes[0]
	if len(c.Attributes) != MaxAttributes || c.AttributesLeftOut != 50 {
		t.Errorf("%d attributes, %d left out", len(c.Attributes), c.AttributesLeftOut)
	}
}

func FuzzReduce(f *testing.F) {
	for _, tool := range tools {
		for _, name := range []string{"classes", "sensitive", "errored", "check"} {
			f.Add(load(f, tool+"."+name))
		}
	}
	f.Add([]byte(change(`"before":{"a":[{}]},"after":{"a":{"b":[]}},"after_unknown":{"a":[true]},"before_sensitive":[],"after_sensitive":{"a":{"b":true}}`)))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := Reduce(bytes.NewReader(doc))
		if err != nil {
			return
		}
		_ = v.Event("c")
		_ = v.Risk()
		again, err := Reduce(bytes.NewReader(doc))
		if err != nil || toJSON(t, again) != toJSON(t, v) {
			t.Fatalf("not the same twice: %v", err)
		}
		if !v.Errored && !v.Incomplete {
			if err := Permits(v, again); err != nil {
				t.Fatalf("does not permit itself: %v", err)
			}
		}
	})
}

func BenchmarkReduce2000(b *testing.B) {
	doc := large(2000)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Reduce(strings.NewReader(doc)); err != nil {
			b.Fatal(err)
		}
	}
}
