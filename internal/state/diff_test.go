package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/plan"
	"holdfast.dev/holdfast/internal/state"
)

func opener(doc string) state.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(doc)), nil }
}

func stateOf(outputs string, resources ...string) string {
	return `{"version":4,"serial":1,"lineage":"l","outputs":{` + outputs + `},"resources":[` + strings.Join(resources, ",") + `],"check_results":null}`
}

func resourceOf(address, instances string) string {
	kind, name, _ := strings.Cut(address, ".")
	return fmt.Sprintf(`{"mode":"managed","type":%q,"name":%q,"provider":"provider[\"example.test/acme/x\"]","instances":[%s]}`, kind, name, instances)
}

// told is a diff in short, a line for each change.
func told(d *state.Diff) []string {
	out := []string{}
	attributes := func(list []plan.Attribute) string {
		var b strings.Builder
		for _, a := range list {
			hidden := ""
			if a.Sensitive {
				hidden = " hidden"
			}
			if a.Cut {
				hidden += " cut"
			}
			fmt.Fprintf(&b, " %s: %.40s > %.40s%s;", a.Path, a.Before, a.After, hidden)
		}
		return b.String()
	}
	for _, c := range d.Changes {
		line := string(c.Action) + " " + c.Address
		if c.Deposed != "" {
			line += " deposed " + c.Deposed
		}
		if c.LeftOut > 0 {
			line += fmt.Sprintf(" (%d left out)", c.LeftOut)
		}
		out = append(out, line+attributes(c.Attributes)+attributes(c.About))
	}
	for _, o := range d.Outputs {
		line := fmt.Sprintf("%s output %s: %.40s > %.40s", o.Action, o.Name, o.Before, o.After)
		if o.Sensitive {
			line += " hidden"
		}
		out = append(out, line)
	}
	return append(out, fmt.Sprintf("%d unchanged, %d more", d.Unchanged, d.More))
}

func compare(t testing.TB, from, to string) *state.Diff {
	t.Helper()
	var before state.Opener
	if from != "" {
		before = opener(from)
	}
	d, err := state.Compare(before, opener(to))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCompare(t *testing.T) {
	one := func(attributes string) string {
		return resourceOf("a.x", `{"schema_version":0,"attributes":`+attributes+`}`)
	}
	for name, c := range map[string]struct {
		from, to string
		want     []string
	}{
		"the same": {stateOf(``, one(`{"id":"1","tags":{"a":"b"}}`)), stateOf(``, one(`{"tags":{"a":"b"},"id":"1"}`)), []string{"1 unchanged, 0 more"}},
		"indented and sorted": {
			stateOf(``, one(`{"id":"é<"}`)),
			"{\n \"resources\": [ {\"instances\": [ {\"attributes\": {\"id\" : \"\\u00e9\\u003c\", \"none\": null}, \"schema_version\": 0} ],\n" +
				`"mode":"managed","name":"x","provider":"provider[\"example.test/acme/x\"]","type":"a"}], "outputs": {}, "version":4}` + "\n",
			[]string{"1 unchanged, 0 more"},
		},
		"changed": {
			stateOf(``, one(`{"id":"1","tags":{"Name":"a","x y":"1"},"n":9007199254740993,"l":[1,2]}`)),
			stateOf(``, one(`{"id":"1","tags":{"Name":"b"},"n":9007199254740992,"l":[1],"m":{}}`)),
			[]string{`changed a.x l[1]: 2 > ; m:  > {}; n: 9007199254740993 > 9007199254740992; tags.Name: "a" > "b"; tags["x y"]: "1" > ;`, "0 unchanged, 0 more"},
		},
		"added and removed, the removed first": {
			stateOf(``, resourceOf("b.old", `{"attributes":{"id":"1"}}`), resourceOf("c.same", `{"attributes":{}}`)),
			stateOf(``, resourceOf("a.new", `{"attributes":{"id":"2"}}`), resourceOf("c.same", `{"attributes":{}}`)),
			[]string{`removed b.old id: "1" > ;`, `added a.new id:  > "2";`, "1 unchanged, 0 more"},
		},
		"nothing before": {``, stateOf(`"o":{"value":1,"type":"number"}`, one(`{"id":"1"}`)), []string{`added a.x id:  > "1";`, "added output o:  > 1", "0 unchanged, 0 more"}},
		"keys of instances": {
			stateOf(``, resourceOf("a.x", `{"index_key":0,"attributes":{"v":1}},{"index_key":"0","attributes":{"v":1}},{"index_key":"a\"${b}","attributes":{"v":1}}`)),
			stateOf(``, resourceOf("a.x", `{"index_key":0,"attributes":{"v":2}},{"index_key":"0","attributes":{"v":3}},{"index_key":"a\"${b}","attributes":{"v":4}}`)),
			[]string{`changed a.x["0"] v: 1 > 3;`, `changed a.x["a\"$${b}"] v: 1 > 4;`, `changed a.x[0] v: 1 > 2;`, "0 unchanged, 0 more"},
		},
		"deposed": {
			stateOf(``, resourceOf("a.x", `{"attributes":{"id":"1"}}`)),
			stateOf(``, resourceOf("a.x", `{"attributes":{"id":"2"}},{"deposed":"00c0ffee","attributes":{"id":"1"}}`)),
			[]string{`changed a.x id: "1" > "2";`, `added a.x deposed 00c0ffee id:  > "1";`, "0 unchanged, 0 more"},
		},
		"tainted, schema and provider": {
			stateOf(``, one(`{"id":"1"}`)),
			stateOf(``, strings.Replace(resourceOf("a.x", `{"status":"tainted","schema_version":2,"attributes":{"id":"1"}}`), "acme", "other", 1)),
			[]string{`changed a.x status:  > "tainted"; schema_version: 0 > 2; provider: "example.test/acme/x" > "example.test/other/x";`, "0 unchanged, 0 more"},
		},
		"data in a module": {
			stateOf(``), stateOf(``, `{"module":"module.m[\"k\"]","mode":"data","type":"http","name":"x","provider":"p","instances":[{"attributes":{"v":true}}]}`),
			[]string{`added module.m["k"].data.http.x v:  > true;`, "0 unchanged, 0 more"},
		},
		"attributes of old tools": {
			stateOf(``, resourceOf("a.x", `{"attributes_flat":{"tags.%":"1","tags.Name":"a"}}`)), stateOf(``, resourceOf("a.x", `{"attributes_flat":{"tags.%":"1","tags.Name":"b"}}`)),
			[]string{`changed a.x ["tags.Name"]: "a" > "b";`, "0 unchanged, 0 more"},
		},
		"what is the tool's own": {
			stateOf(``, resourceOf("a.x", `{"attributes":{"id":"1"},"private":"AAAA","dependencies":["b.y"]}`)),
			stateOf(``, resourceOf("a.x", `{"attributes":{"id":"1"},"private":"BBBB","create_before_destroy":true}`)),
			[]string{"1 unchanged, 0 more"},
		},
		"outputs": {
			stateOf(`"a":{"value":"1","type":"string"},"b":{"value":{"x":[1]},"type":["object",{}]},"c":{"value":1,"type":"number"}`),
			stateOf(`"a":{"value":"1","type":"string","sensitive":false},"b":{"value":{"x":[2]},"type":["object",{}]},"d":{"value":null,"type":"string"}`),
			[]string{`changed output b: {"x":[1]} > {"x":[2]}`, `removed output c: 1 > `, `added output d:  > null`, "0 unchanged, 0 more"},
		},
		"not a state's shape": {
			`{"version":4,"outputs":[],"resources":{}}`, `{"version":4,"outputs":{"o":1},"resources":[1,{"instances":[2]},null,{"instances":{}}]}`,
			[]string{"0 unchanged, 0 more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(compare(t, c.from, c.to)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestCompareHidesSecrets is R11 for documents: what is marked, in both tools' forms, and whatever equals or holds it.
func TestCompareHidesSecrets(t *testing.T) {
	marks := func(list string) string { return `,"sensitive_attributes":[` + list + `]` }
	x := func(attributes, rest string) string { return resourceOf("a.x", `{"attributes":`+attributes+rest+`}`) }
	long := strings.Repeat("canary-", 2000)
	for name, c := range map[string]struct{ from, to string }{
		"an attribute": {
			stateOf(``, x(`{"p":"canary-1","q":"1"}`, marks(`[{"type":"get_attr","value":"p"}]`))),
			stateOf(``, x(`{"p":"canary-2","q":"2"}`, marks(`[{"type":"get_attr","value":"p"}]`))),
		},
		"within a list of objects": {
			stateOf(``, x(`{"l":[{"p":"canary-1"}]}`, ``)),
			stateOf(``, x(`{"l":[{"p":"canary-2"}]}`, marks(`[{"type":"get_attr","value":"l"},{"type":"index","value":{"value":0,"type":"number"}},{"type":"get_attr","value":"p"}]`))),
		},
		"by a key":                 {``, stateOf(``, x(`{"m":{"k":"canary-1","o":"x"}}`, marks(`[{"type":"get_attr","value":"m"},{"type":"index","value":{"value":"k","type":"string"}}]`)))},
		"a whole object":           {``, stateOf(``, x(`{"m":{"k":["canary-1",{"canary-key":"canary-2"}]}}`, marks(`[{"type":"get_attr","value":"m"}]`)))},
		"a step that is not known": {``, stateOf(``, x(`{"m":{"k":"canary-1"}}`, marks(`[{"type":"get_attr","value":"m"},{"type":"other"}]`)))},
		"everything":               {``, stateOf(``, x(`{"m":"canary-1"}`, marks(`[]`)))},
		"of old tools":             {``, stateOf(``, resourceOf("a.x", `{"attributes_flat":{"p.0.q":"canary-1"},"sensitive_attributes":[[{"type":"get_attr","value":"p"}]]}`))},
		"a copy in another attribute": {
			stateOf(``, x(`{"p":"canary-1","copy":"canary-1","url":"https://u:canary-1@h"}`, marks(`[{"type":"get_attr","value":"p"}]`))),
			stateOf(``, x(`{"p":"canary-2","copy":"canary-2","url":"https://u:canary-2@h"}`, marks(`[{"type":"get_attr","value":"p"}]`))),
		},
		"a copy in another resource and an output": {
			``, stateOf(`"o":{"value":["canary-1"],"type":"x"},"p":{"value":"canary-2","type":"string","sensitive":true}`,
				resourceOf("b.y", `{"index_key":"canary-1","attributes":{"v":{"w":["canary-2"]}}}`), x(`{"p":"canary-1"}`, marks(`[{"type":"get_attr","value":"p"}]`))),
		},
		"a number":                   {``, stateOf(`"o":{"value":1234567890,"type":"number"}`, x(`{"p":1234567890}`, marks(`[{"type":"get_attr","value":"p"}]`)))},
		"a long one and its copy":    {``, stateOf(`"o":{"value":"`+long+`","type":"string"}`, x(`{"p":"`+long+`","copy":"`+long+`"}`, marks(`[{"type":"get_attr","value":"p"}]`)))},
		"a long text that holds one": {``, stateOf(``, x(`{"p":"canary-1","text":"canary-1`+strings.Repeat("-", 20000)+`"}`, marks(`[{"type":"get_attr","value":"p"}]`)))},
		"an attribute that is too large": {
			``, stateOf(``, resourceOf("b.y", `{"attributes":{"v":"canary-1"}}`), x(`{"l":[`+strings.Repeat(`"x",`, 50000)+`"canary-1"]}`, marks(`[{"type":"get_attr","value":"l"}]`))),
		},
		"private": {``, stateOf(``, x(`{"id":"1"}`, `,"private":"canary-1"`))},
		"marked in one version only": {
			stateOf(``, x(`{"p":"canary-1"}`, marks(`[{"type":"get_attr","value":"p"}]`))), stateOf(``, x(`{"p":"canary-1"}`, ``)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := compare(t, c.from, c.to)
			text, err := json.Marshal(d)
			if err != nil || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("1234567890")) || len(d.Changes) == 0 {
				t.Errorf("%.2000s, %v", text, err)
			}
			outputs, _, err := state.Outputs(opener(c.to))
			if text, _ := json.Marshal(outputs); err != nil || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("1234567890")) {
				t.Errorf("outputs: %.2000s, %v", text, err)
			}
			_, list, _, err := state.Instances(opener(c.to), "a.x")
			if name == "marked in one version only" {
				return // the other version says that it is no secret
			}
			if text, _ := json.Marshal(list); err != nil || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("1234567890")) || len(list) != 1 {
				t.Errorf("instances: %.2000s, %v", text, err)
			}
		})
	}
	d := compare(t, stateOf(``, x(`{"p":"abcdef1","q":"1"}`, marks(`[{"type":"get_attr","value":"p"}]`))), stateOf(``, x(`{"p":"abcdef2","q":"2"}`, marks(`[{"type":"get_attr","value":"p"}]`))))
	if got := told(d); got[0] != `changed a.x p:  >  hidden; q: "1" > "2";` {
		t.Errorf("beside a hidden value: %s", got[0])
	}
}

// TestCompareKeepsToItsBounds: what is too much is counted, cut or refused by name.
func TestCompareKeepsToItsBounds(t *testing.T) {
	many := func(n int, value string) string {
		var rs []string
		for i := range n {
			rs = append(rs, resourceOf(fmt.Sprintf("a.n%d", i), `{"attributes":{"v":"`+value+`"}}`))
		}
		return stateOf(``, rs...)
	}
	if d := compare(t, many(800, "a"), many(900, "b")); len(d.Changes) != state.MaxChanges || d.More != 400 || d.Unchanged != 0 || d.Changes[0].Action != state.Changed {
		t.Errorf("%d listed, %d more, %d unchanged, the first %s", len(d.Changes), d.More, d.Unchanged, d.Changes[0].Action)
	}
	if d := compare(t, many(900, "a"), many(1, "a")); len(d.Changes) != state.MaxChanges || d.More != 399 || d.Changes[0].Action != state.Removed {
		t.Errorf("%d listed, %d more", len(d.Changes), d.More)
	}
	big := func(end string) string {
		return stateOf(``, resourceOf("a.x", `{"attributes":{"text":"`+strings.Repeat("0123456789", 2_000_000)+end+`","n":1}}`))
	}
	if got := told(compare(t, big("a"), big("b"))); len(got) != 2 || !strings.Contains(got[0], "changed a.x text: \"0123456789") || !strings.Contains(got[0], "cut") {
		t.Errorf("a long text that differs at its end: %s", got)
	}
	if got := told(compare(t, big("a"), big("a"))); len(got) != 1 || got[0] != "1 unchanged, 0 more" {
		t.Errorf("a long text that is the same: %s", got)
	}
	wide := func(last string) string {
		return stateOf(``, resourceOf("a.x", `{"attributes":{"l":[`+strings.Repeat("1,", 100_000)+last+`]}}`))
	}
	if got := told(compare(t, wide("1"), wide("2"))); len(got) != 2 || got[0] != "changed a.x (1 left out)" {
		t.Errorf("an instance with too many values: %s", got)
	}
	deep := func(last string) string {
		return stateOf(``, resourceOf("a.x", `{"attributes":{"l":`+strings.Repeat("[", 9000)+last+strings.Repeat("]", 9000)+`}}`))
	}
	if got := told(compare(t, deep("1"), deep("2"))); len(got) != 2 || got[0] != "changed a.x (1 left out)" {
		t.Errorf("a deep value: %s", got)
	}
	crowd := stateOf(``, resourceOf("a.x", strings.Repeat(`{},`, 200_000)+`{}`))
	if _, err := state.Compare(nil, opener(crowd)); fault.Code(err) != "too_many_instances" {
		t.Errorf("more instances than are looked at: %v", err)
	}
	for _, doc := range []string{`{"resources":[`, `{"resources":[{"instances":[{"attributes":{"a":"\x"}}]}]}`, `{} x`, ``, `{"outputs":{"a" 1}}`} {
		if _, err := state.Compare(nil, opener(doc)); fault.Code(err) != "document_unreadable" {
			t.Errorf("%q: %v", doc, err)
		}
	}
}

// TestCompareHoldsLittle: memory does not grow with the documents.
func TestCompareHoldsLittle(t *testing.T) {
	doc := func(seed int) state.Opener {
		return func() (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() {
				fmt.Fprint(w, `{"version":4,"resources":[`)
				for i := range 4000 {
					fmt.Fprintf(w, `%s{"mode":"managed","type":"a","name":"n%d","provider":"p","instances":[{"attributes":{"v":%d,"text":"%s"}}]}`,
						strings.Repeat(",", min(i, 1)), i, i*seed, strings.Repeat("some text ", 1000))
				}
				_ = w.CloseWithError(func() error { _, err := fmt.Fprint(w, `]}`); return err }())
			}()
			return r, nil
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := state.Compare(doc(1), doc(2))
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if len(d.Changes) != state.MaxChanges || d.More != 3499 || d.Unchanged != 1 {
		t.Errorf("%d listed, %d more, %d unchanged", len(d.Changes), d.More, d.Unchanged)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB over documents of 40 MiB each", grown>>20)
	}
}

// TestCompareFindsWhatWasChanged draws two documents and says by itself what differs.
func TestCompareFindsWhatWasChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{`1`, `"a"`, `{"x":[1,{"y":"é"}]}`, `[]`, `true`, `1e3`})
		draw := func(label string) map[string]string {
			return rapid.MapOfN(rapid.SampledFrom([]string{"a.a", "a.b", "b.a", "b.b", "c.c"}), value, 0, 5).Draw(t, label)
		}
		from, to := draw("from"), draw("to")
		doc := func(of map[string]string) string {
			var rs []string
			for address, v := range of {
				rs = append(rs, resourceOf(address, `{"attributes":{"v":`+v+`}}`))
			}
			return stateOf(``, rs...)
		}
		want := map[string]state.Action{}
		same := 0
		for address, v := range from {
			switch now, there := to[address]; {
			case !there:
				want[address] = state.Removed
			case now != v:
				want[address] = state.Changed
			default:
				same++
			}
		}
		for address := range to {
			if _, there := from[address]; !there {
				want[address] = state.Added
			}
		}
		d, err := state.Compare(opener(doc(from)), opener(doc(to)))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]state.Action{}
		for _, c := range d.Changes {
			got[c.Address] = c.Action
			if len(c.Attributes) == 0 {
				t.Fatalf("%s: no attributes", c.Address)
			}
		}
		if !reflect.DeepEqual(got, want) || d.Unchanged != same || d.More != 0 {
			t.Fatalf("got %v, %d unchanged; want %v, %d", got, d.Unchanged, want, same)
		}
	})
}

// FuzzCompare: whatever a Scanner lets pass can be compared, with itself without a difference, and with nothing; and a
// value that is marked is not in what is shown.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(stateOf(`"o":{"value":"x","type":"string","sensitive":true}`, resourceOf("a.x", `{"index_key":1,"attributes":{"p":"s"},"sensitive_attributes":[[{"type":"get_attr","value":"p"}]]}`))))
	f.Add([]byte(`{"version":4,"resources":[{"instances":[{"deposed":"a","attributes_flat":{"a":"\ud800\u0000"}},{}],"name":"\u0000"}]}`))
	f.Add([]byte(`{"version":4,"RESOURCES":[[],{"instances":[{"attributes":{"a":-0.1e+5}}]}],"outputs":{"a":null}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if d, err := scan(t, doc); err != nil || d.Encrypted {
			return
		}
		open := opener(string(doc))
		if _, err := state.Compare(nil, open); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		list, _, err := state.Outputs(open)
		if err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		for _, o := range list {
			if o.Value != "" && !json.Valid([]byte(o.Value)) {
				t.Fatalf("%q: output %q has the value %q", doc, o.Name, o.Value)
			}
		}
	})
}
