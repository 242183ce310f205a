package state_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// marked is an instance whose attributes at these paths are sensitive.
func marked(attributes string, paths ...string) string {
	return `{"attributes":` + attributes + `,"sensitive_attributes":[` + strings.Join(paths, ",") + `]}`
}

const atP = `[{"type":"get_attr","value":"p"}]`

// wide is more values than are held of one attribute.
var wide = `[` + strings.Repeat(`"x",`, 50_000) + `"x"]`

// TestMarksNameWhatIsHidden: a mark hides what it names and no more; where it cannot be followed, it hides all there is.
func TestMarksNameWhatIsHidden(t *testing.T) {
	path := func(steps ...string) string {
		out := []string{`{"type":"get_attr","value":"l"}`}
		for _, s := range steps {
			out = append(out, `{"type":"index","value":{"value":`+s+`}}`)
		}
		return `[` + strings.Join(out, ",") + `]`
	}
	for name, c := range map[string]struct {
		instance string
		want     string // of an added a.x
	}{
		"an element that is not the first":  {marked(`{"l":["a","b"]}`, path(`1`)), ` l[0]:  > "a"; l[1]:  >  hidden;`},
		"the first of several":              {marked(`{"l":[true,"b"]}`, path(`0`)), ` l[0]:  >  hidden; l[1]:  > "b";`},
		"a name in a list":                  {marked(`{"l":["a","b"]}`, path(`"k"`)), ` l:  >  hidden;`},
		"an index in an object":             {marked(`{"l":{"k":"a"}}`, path(`0`)), ` l:  >  hidden;`},
		"an index in a text":                {marked(`{"l":"a"}`, path(`0`)), ` l:  >  hidden;`},
		"an index that is no whole number":  {marked(`{"l":["a","b"]}`, path(`1.5`)), ` l:  >  hidden;`},
		"an index with an exponent":         {marked(`{"l":["a","b"]}`, path(`1e0`)), ` l:  >  hidden;`},
		"an index that no list has":         {marked(`{"l":["a","b"]}`, path(`18446744073709551616`)), ` l:  >  hidden;`},
		"an index that is no number":        {marked(`{"l":["a","b"]}`, path(`true`)), ` l:  >  hidden;`},
		"a name that begins as another":     {marked(`{"l":{"k":"x"}}`, path(`"kx"`)), ` l.k:  > "x";`},
		"a name longer than all there is":   {marked(`{"l":"x"}`, `[{"type":"get_attr","value":"`+strings.Repeat("l", 5000)+`"}]`), ` l:  > "x";`},
		"nothing that is there":             {marked(`{"l":"x"}`, atP), ` l:  > "x";`},
		"no attributes":                     {`{"sensitive_attributes":[` + atP + `]}`, ``},
		"marks of null":                     {`{"attributes":{"l":"x"},"sensitive_attributes":null}`, ` l:  > "x";`},
		"attributes of both kinds of tools": {`{"attributes":{"id":"1"},"attributes_flat":{"id":"2","x":"3"}}`, ` id:  > "1";`},
		"attributes that are a list":        {`{"attributes":["x"]}`, ``},
		"more steps than are taken":         {marked(`{`+members(1000)+`}`, strings.Split(strings.Repeat(atP+" ", 2000), " ")[:2000]...), ` :  >  hidden;`},
	} {
		t.Run(name, func(t *testing.T) {
			got := told(compare(t, ``, stateOf(``, resourceOf("a.x", c.instance))))
			if len(got) != 2 || got[0] != "added a.x"+c.want {
				t.Errorf("%.2000q, want %q", got, "added a.x"+c.want)
			}
		})
	}
	if got := told(compare(t, stateOf(``, resourceOf("a.x", marked(`{"m":null}`, `[{"type":"get_attr","value":"m"},{"type":"get_attr","value":"p"}]`))),
		stateOf(``, resourceOf("a.x", `{"attributes":{"m":{"q":"1"}}}`)))); !strings.Contains(got[0], `m.q:  > "1";`) {
		t.Errorf("a mark below null: %s", got)
	}
}

// members is so many attributes of an object.
func members(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"a%d":"v"`, i))
	}
	return strings.Join(list, ",")
}

// TestWhatIsMarkedAndCannotBeHeldHidesAll: where not all that is sensitive is known, nothing is shown.
func TestWhatIsMarkedAndCannotBeHeldHidesAll(t *testing.T) {
	beside := resourceOf("b.y", `{"attributes":{"copy":"canary-1","m":{"k":"v"},"l":["v"]}}`)
	secrets := func(from int) string {
		var list []string
		for i := range 30_000 {
			list = append(list, fmt.Sprintf(`"secret-%d"`, from+i))
		}
		return `[` + strings.Join(list, ",") + `]`
	}
	for name, c := range map[string]struct{ outputs, instance string }{
		"an instance too large": {``, marked(`{"l":`+wide+`,"p":"canary-1"}`, atP)},
		"marks too many":        {``, marked(`{"p":"canary-1"}`, strings.Repeat(`[{"type":"get_attr","value":"q"}],`, 15_000)+atP)},
		"an output too large":   {`"s":{"sensitive":true,"value":[` + wide + `,"canary-1"]}`, `{}`},
		"secrets too many":      {`"s":{"sensitive":true,"value":` + secrets(0) + `},"t":{"sensitive":true,"value":` + secrets(30_000) + `},"u":{"sensitive":true,"value":"canary-1"}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			outputs := `"e":{"value":[]},"o":{"value":"canary-1"}`
			if c.outputs != "" {
				outputs += "," + c.outputs
			}
			doc := stateOf(outputs, resourceOf("a.x", c.instance), beside)
			got := strings.Join(told(compare(t, ``, doc)), "\n")
			want := []string{"added b.y copy:  >  hidden; l[0]:  >  hidden; m.k:  >  hidden;", "added output e:  >  hidden", "added output o:  >  hidden"}
			for _, line := range want {
				if !strings.Contains(got, line) {
					t.Errorf("%.2000s, want the line %q", got, line)
				}
			}
			if strings.Contains(got, "canary") || strings.HasPrefix(name, "marks") && !strings.Contains(got, "added a.x (1 left out)") {
				t.Errorf("shown: %.2000s", got)
			}
		})
	}
	// What is too large and not marked hides nothing beside it.
	got := told(compare(t, stateOf(``, resourceOf("a.x", `{"attributes":{"l":`+wide+`}}`), resourceOf("b.y", `{"attributes":{"v":"1"}}`)),
		stateOf(``, resourceOf("a.x", `{"attributes":{"l":"x"}}`), resourceOf("b.y", `{"attributes":{"v":"2"}}`))))
	if want := "changed a.x (1 left out)\nchanged b.y v: \"1\" > \"2\";\n0 unchanged, 0 more"; strings.Join(got, "\n") != want {
		t.Errorf("one side too large: %s, want %s", got, want)
	}
	got = told(compare(t, stateOf(``, resourceOf("a.x", `{"attributes":{"l":"x"}}`)), stateOf(``, resourceOf("a.x", `{"attributes":{"l":`+wide+`}}`))))
	if got[0] != "changed a.x (1 left out)" {
		t.Errorf("the other side too large: %s", got)
	}
}

// TestSensitiveOutputs: what an output says of itself holds for both of its versions, and for values that are too short
// to be found elsewhere.
func TestSensitiveOutputs(t *testing.T) {
	const hidden, plain = `"p":{"value":"canary-1","sensitive":true}`, `"p":{"value":"plain"}`
	for _, c := range []struct{ from, to, want string }{
		{hidden, plain, "changed output p:  >  hidden"},
		{plain, hidden, "changed output p:  >  hidden"},
		{``, `"p":{"value":true,"sensitive":true}`, "added output p:  >  hidden"},
		{``, `"p":{"value":"ab","sensitive":"yes"}`, "added output p:  >  hidden"},
		{``, `"p":{"sensitive":true}`, "added output p:  >  hidden"},
		{``, `"p":{"value":true,"sensitive":null}`, "added output p:  > true"},
		{``, `"p":{"value":true,"sensitive":false}`, "added output p:  > true"},
		{`"p":{"type":"string"}`, `"p":{"type":"string","value":null}`, "0 unchanged, 0 more"},
		{``, `"p":{"value":-9876543210},"s":{"value":-9876543210,"sensitive":true}`, "added output p:  >  hidden"},
	} {
		if got := told(compare(t, stateOf(c.from), stateOf(c.to))); got[0] != c.want {
			t.Errorf("from %s to %s: %s, want %s", c.from, c.to, got, c.want)
		}
	}
	list, _, err := state.Outputs(opener(stateOf(`"a":{"value":"ab","sensitive":true},"w":{"value":` + wide + `}`)))
	if err != nil || fmt.Sprint(list) != "[{a   true false} {w   false true}]" {
		t.Errorf("%v, %v; want one hidden and one too large to be shown", list, err)
	}
}

// TestWhatIsListedIsBounded: outputs and instances have bounds of their own, and what is held of them has one.
func TestWhatIsListedIsBounded(t *testing.T) {
	outputs := func(n int, value string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"o%d":{"value":%q}`, i, value))
		}
		return strings.Join(list, ",")
	}
	instances := func(n int, rest func(i int) string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"index_key":%d,%s}`, i, rest(i)))
		}
		return resourceOf("a.x", strings.Join(list, ","))
	}
	v := func(value string) func(int) string {
		return func(int) string { return `"attributes":{"v":"` + value + `"}` }
	}
	d := compare(t, stateOf(outputs(501, "a"), instances(501, v("a"))), stateOf(outputs(501, "b"), instances(501, v("b"))))
	if len(d.Changes) != state.MaxChanges || len(d.Outputs) != state.MaxOutputs || d.More != 2 {
		t.Errorf("%d instances, %d outputs, %d more", len(d.Changes), len(d.Outputs), d.More)
	}
	list, more, err := state.Outputs(opener(stateOf(outputs(501, "a"))))
	if err != nil || len(list) != state.MaxOutputs || more != 1 {
		t.Errorf("%d outputs, %d more, %v", len(list), more, err)
	}
	r, shown, more, err := state.Instances(opener(stateOf(outputs(1, "a"), instances(501, v("a")))), "a.x")
	if err != nil || len(shown) != state.MaxChanges || more != 1 || r.Instances != 501 || len(shown[0].Attributes) != 1 || shown[0].LeftOut != 0 {
		t.Errorf("%d instances of %d, %d more, %v", len(shown), r.Instances, more, err)
	}
	if r, shown, _, err := state.Instances(opener(stateOf(outputs(1, "a"))), ""); r.Name != "" || len(shown) > 0 || err != nil {
		t.Errorf("an output at no address: %+v, %v", shown, err)
	}

	// What changed goes before what was added, wherever it stands.
	fresh, old := make([]string, 500), [2][]string{}
	for i := range fresh {
		fresh[i] = resourceOf(fmt.Sprint("a.n", i), `{}`)
		for side, value := range []string{"1", "2"} {
			old[side] = append(old[side], resourceOf(fmt.Sprint("z.n", i), `{"attributes":{"v":`+value+`}}`))
		}
	}
	d = compare(t, stateOf(``, old[0]...), stateOf(``, append(fresh, old[1]...)...))
	if d.Changes[0].Action != state.Changed || d.Changes[len(d.Changes)-1].Action != state.Changed || d.More != 500 {
		t.Errorf("the first is %s, the last %s, %d more", d.Changes[0].Action, d.Changes[len(d.Changes)-1].Action, d.More)
	}

	// Documents with much in their instances: some of what changed cannot be held, and says so.
	leftOut := func(d *state.Diff) (n int) {
		for _, c := range d.Changes {
			if c.LeftOut > 0 {
				n++
			}
		}
		return n
	}
	fat := func(value string) string {
		var rs []string
		for i := range 400 {
			rs = append(rs, resourceOf(fmt.Sprint("a.n", i), `{"attributes":{`+members(500)+`,"v":"`+value+`"}}`))
		}
		return stateOf(``, rs...)
	}
	if n := leftOut(compare(t, fat("a"), fat("b"))); n == 0 || n == 400 {
		t.Errorf("of 400 large instances that changed, %d were not held", n)
	}
	nulls := strings.ReplaceAll(members(600), `"v"`, `null`)
	crowd := instances(400, func(i int) string {
		return fmt.Sprintf(`"deposed":"%d%s","attributes":{"id":"1",%s}`, i, strings.Repeat("-", 5000), nulls)
	})
	d = compare(t, ``, stateOf(``, crowd))
	if n := leftOut(d); n == 0 || n == 400 || len(d.Changes) != 400 {
		t.Errorf("of %d instances of one resource, %d were not held", len(d.Changes), n)
	}
	texts := func(end string) string {
		return stateOf(``, resourceOf("a.x", `{"attributes":{"l":[`+strings.Repeat(`"`+strings.Repeat("x", 8000)+`",`, 200)+`"`+end+`"]}}`))
	}
	if got := told(compare(t, texts("a"), texts("b"))); got[0] != "changed a.x (1 left out)" {
		t.Errorf("an instance with too much text: %.200s", got)
	}
	// Outputs that come when no more can be listed say that there is more to them.
	much := func(value string) string {
		var rs []string
		for i := range 500 {
			rs = append(rs, resourceOf(fmt.Sprint("a.n", i), `{"attributes":{`+strings.ReplaceAll(members(10), `"v"`, `"`+strings.Repeat(value, 500)+`"`)+`}}`))
		}
		return `{"version":4,"resources":[` + strings.Join(rs, ",") + `],"outputs":{` + outputs(500, strings.Repeat(value, 900)) + `}}`
	}
	d = compare(t, much("a"), much("b"))
	if last := d.Outputs[len(d.Outputs)-1]; !last.Cut || last.Before != "" || last.After != "" || last.Sensitive {
		t.Errorf("an output when no more can be listed: %.200v", last)
	}
	for _, sides := range [][2]string{{"short", strings.Repeat("x", 5000)}, {strings.Repeat("x", 5000), "short"}} {
		if d := compare(t, stateOf(outputs(1, sides[0])), stateOf(outputs(1, sides[1]))); !d.Outputs[0].Cut {
			t.Errorf("an output of which one side is cut does not say so: %.100v", d.Outputs[0])
		}
	}
}

// TestOddInstances: what no tool writes is compared as what it most likely is, and never breaks anything.
func TestOddInstances(t *testing.T) {
	x := func(instance string) string { return stateOf(``, resourceOf("a.x", instance)) }
	odd := func(fields string) string {
		return stateOf(``, `{"mode":"managed","type":"a","name":"x","provider":"p",`+fields+`,"instances":[{"attributes":{"id":"1"}}]}`)
	}
	const added = `added a.x id:  > "1";`
	for name, c := range map[string]struct{ from, to, want string }{
		"added and tainted":            {``, x(`{"status":"tainted","schema_version":1}`), `added a.x status:  > "tainted";`},
		"removed with a schema":        {x(`{"schema_version":1,"attributes":{"id":"1"}}`), stateOf(``), `removed a.x id: "1" > ;`},
		"no status any more":           {x(`{"status":null,"attributes":{"id":"1"}}`), x(`{"attributes":{"id":"2"}}`), `changed a.x id: "1" > "2";`},
		"nothing marked, in two forms": {x(`{"status":null,"sensitive_attributes":null}`), x(`{"sensitive_attributes":[]}`), "1 unchanged, 0 more"},
		"attributes of another tool":   {x(`{"attributes":{"id":"1"},"attributes_flat":{"id":"2"}}`), x(`{"attributes":{"id":"1"}}`), "1 unchanged, 0 more"},
		"a key that is null":           {``, x(`{"index_key":null,"attributes":{"id":"1"}}`), added},
		"a key that is an object":      {``, x(`{"index_key":{},"attributes":{"id":"1"}}`), added},
		"a key that is a list":         {``, x(`{"index_key":[],"attributes":{"id":"1"}}`), added},
		"deposed by a number":          {``, x(`{"deposed":5,"attributes":{"id":"1"}}`), added},
		"a text that is not looked at": {``, odd(`"each":"list"`), added},
		"a list of objects beside":     {``, odd(`"other":[{"attributes":{"id":"9"}}]`), added},
		"a module that is no text":     {``, odd(`"module":[1]`), added},
		"outputs for resources":        {``, `{"version":4,"resources":{"o":{"value":1}},"x":{"o":{"value":1}}}`, "0 unchanged, 0 more"},
		"resources for outputs":        {``, `{"version":4,"outputs":[` + resourceOf("a.x", `{}`) + `],"x":[` + resourceOf("a.x", `{}`) + `]}`, "0 unchanged, 0 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(compare(t, c.from, c.to)); got[0] != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	key := strings.Repeat("k", 8500)
	d := compare(t, ``, stateOf(``, resourceOf("a.x", `{"index_key":"`+key+`1"},{"index_key":"`+key+`2"}`)))
	if len(d.Changes) != 2 || d.Changes[0].Address == d.Changes[1].Address || len(d.Changes[0].Address) > 1200 {
		t.Errorf("two instances with long keys: %d", len(d.Changes))
	}
}

// TestDocumentsAreReadToTheirEnd, and no more often than is needed.
func TestDocumentsAreReadToTheirEnd(t *testing.T) {
	boom := errors.New("damaged at its end")
	for name, c := range map[string]struct {
		r    func() io.Reader
		want string
	}{
		"more after it": {func() io.Reader { return iotest.DataErrReader(strings.NewReader(`{} x`)) }, "document_unreadable"},
		"too deep": {func() io.Reader {
			return strings.NewReader(`{"x":` + strings.Repeat("[", 10_100) + strings.Repeat("]", 10_100) + `}`)
		}, "document_unreadable"},
		"an error at end": {func() io.Reader { return io.MultiReader(strings.NewReader(`{}`), iotest.ErrReader(boom)) }, ""},
	} {
		_, err := state.Compare(nil, func() (io.ReadCloser, error) { return io.NopCloser(c.r()), nil })
		if c.want == "" && !errors.Is(err, boom) || c.want != "" && fault.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	opened := 0
	count := func() (io.ReadCloser, error) {
		opened++
		return opener(stateOf(``, resourceOf("a.x", `{"attributes":{"id":"1"}}`)))()
	}
	if _, err := state.Compare(count, count); err != nil || opened != 2 {
		t.Errorf("equal documents were opened %d times, %v; want each once", opened, err)
	}
	opened = 0
	if _, _, _, err := state.Instances(count, "a.y"); err != nil || opened != 1 {
		t.Errorf("a document without the resource was opened %d times, %v; want once", opened, err)
	}
}
