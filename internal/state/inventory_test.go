package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/state"
)

const aws = "registry.opentofu.org/hashicorp/aws"

func inventoryOf(t testing.TB, doc string) *state.Inventory {
	t.Helper()
	_, list, err := scanAll(t, []byte(doc))
	if err != nil {
		t.Fatalf("%.200s: %v", doc, err)
	}
	return list
}

func TestInventoryListsResources(t *testing.T) {
	managed := func(address, kind, name string, n int64) state.Resource {
		return state.Resource{Address: address, Mode: "managed", Type: kind, Name: name, Provider: aws, Instances: n}
	}
	const provider = `"provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]"`
	for name, c := range map[string]struct {
		resources string
		want      []state.Resource
		truncated bool
	}{
		"none": {`[]`, nil, false},
		"by address, with and without instances": {
			`[{"mode":"managed","type":"b","name":"x",` + provider + `,"instances":[{"attributes":{"instances":[1,2,3],"type":"no"}},{"index_key":1}]},` +
				`{"mode":"managed","type":"a","name":"y",` + provider + `,"instances":[]}]`,
			[]state.Resource{managed("a.y", "a", "y", 0), managed("b.x", "b", "x", 2)},
			false,
		},
		"fields sorted": {
			`[{"instances":[{},{}],"mode":"managed","name":"x",` + provider + `,"type":"b"}]`,
			[]state.Resource{managed("b.x", "b", "x", 2)},
			false,
		},
		"data in a module with a key": {
			`[{"module":"module.a[\"k.\\\"\"].module.b[0]","mode":"data","type":"http","name":"x","provider":"module.a.provider[\"example.test/acme/http\"].west","instances":[{}]}]`,
			[]state.Resource{{
				Address: `module.a["k.\""].module.b[0].data.http.x`, Module: `module.a["k.\""].module.b[0]`, Mode: "data", Type: "http", Name: "x",
				Provider: "example.test/acme/http", Instances: 1,
			}},
			false,
		},
		"provider of an old tool": {
			`[{"mode":"managed","type":"b","name":"x","provider":"module.a.provider.aws.west","each":"list","instances":[{}]}]`,
			[]state.Resource{{Address: "b.x", Mode: "managed", Type: "b", Name: "x", Provider: "aws", Instances: 1}},
			false,
		},
		"escapes": {
			`[{"mode":"man\u0061ged","type":"b","name":"\u00e9\n","provider":"","instances":null}]`,
			[]state.Resource{{Address: "b.é\n", Mode: "managed", Type: "b", Name: "é\n"}},
			false,
		},
		"twice":               {`[{"mode":"managed","type":"b","name":"x",` + provider + `,"instances":[{}]},{"mode":"managed","type":"b","name":"x",` + provider + `,"instances":[{},{}]}]`, []state.Resource{managed("b.x", "b", "x", 3)}, false},
		"no type":             {`[{"mode":"managed","name":"x"}]`, nil, true},
		"an unknown mode":     {`[{"mode":"other","type":"b","name":"x"}]`, nil, true},
		"a name with NUL":     {`[{"mode":"managed","type":"b","name":"\u0000"}]`, nil, true},
		"no text":             {`[{"mode":"managed","type":"b","name":"\ud800"}]`, nil, true},
		"a name too long":     {`[{"mode":"managed","type":"b","name":"` + strings.Repeat("x", 1020) + `"}]`, nil, true},
		"a name far too long": {`[{"mode":"managed","type":"b","name":"` + strings.Repeat("x", 10000) + `"}]`, nil, true},
		"no name":             {`[{"mode":"managed","type":"b","name":""}]`, nil, true},
		"a module no text":    {`[{"module":"\ud800","mode":"managed","type":"b","name":"x",` + provider + `}]`, nil, true},
		"a provider no text":  {`[{"mode":"managed","type":"b","name":"x","provider":"\ud800"}]`, nil, true},
		"a long provider":     {`[{"mode":"managed","type":"b","name":"x","provider":"` + strings.Repeat("x", 1025) + `"}]`, nil, true},
		"a module of null":    {`[{"module":null,"mode":"managed","type":"b","name":"x",` + provider + `}]`, []state.Resource{managed("b.x", "b", "x", 0)}, false},
		"a list of text":      {`[{"mode":"managed","type":"b","name":"x",` + provider + `,"instances":"\ud800"}]`, []state.Resource{managed("b.x", "b", "x", 0)}, false},
		"U+FFFD in a name":    {`[{"mode":"managed","type":"b","name":"\u0061` + "\uFFFD" + `",` + provider + `}]`, []state.Resource{managed("b.a\uFFFD", "b", "a\uFFFD", 0)}, false},
		"no objects":          {`[1,"mode",[{"mode":"managed","type":"b","name":"x"}],null]`, nil, false},
		"no list":             {`{"a":{"mode":"managed","type":"b","name":"x"}}`, nil, false},
		"numbers for names":   {`[{"mode":"managed","type":1,"name":{"a":[]}}]`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := inventoryOf(t, `{"x":[{"mode":"managed","type":"b","name":"x"}],"resources":`+c.resources+`,"version":4}`)
			if rs := got.Resources(); len(rs)+len(c.want) > 0 && !reflect.DeepEqual(rs, c.want) || got.Truncated != c.truncated {
				t.Errorf("got %+v, truncated %t; want %+v, %t", rs, got.Truncated, c.want, c.truncated)
			}
		})
	}
	if got := inventoryOf(t, `{"meta":{},"encrypted_data":"AAAA","resources":[{"mode":"managed","type":"b","name":"x"}]}`); len(got.Resources()) > 0 || got.Hash == "" {
		t.Errorf("an encrypted document has the list %+v", got)
	}
}

// TestInventoryIsBounded: however many resources and texts a document has, the list keeps to its limits and says so.
func TestInventoryIsBounded(t *testing.T) {
	long := strings.Repeat("m", 900)
	for name, module := range map[string]string{"many": "", "long": long} {
		var doc bytes.Buffer
		doc.WriteString(`{"version":4,"resources":[`)
		for i := range state.MaxResources + 1 {
			fmt.Fprintf(&doc, `%s{"module":"%s","mode":"managed","type":"t","name":"n%d","instances":[]}`, strings.Repeat(",", min(i, 1)), strings.Repeat(fmt.Sprint(module, i), min(1, len(module))), i)
		}
		doc.WriteString(`]}`)
		s := state.NewScanner()
		if _, err := s.Write(doc.Bytes()); err != nil {
			t.Fatal(err)
		}
		d, err := s.Finish()
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		rs := d.Inventory.Resources()
		for _, r := range rs {
			total += len(r.Address)
		}
		if !d.Inventory.Truncated || len(rs) > state.MaxResources || len(rs) < 1000 || total > 4<<20 {
			t.Errorf("%s: %d resources, %d bytes of addresses, truncated %t", name, len(rs), total, d.Inventory.Truncated)
		}
	}
}

// TestInventoryKeepsATextOnce: a module's address counts once, in however many resources it stands.
func TestInventoryKeepsATextOnce(t *testing.T) {
	var rs []string
	for i := range state.MaxResources {
		rs = append(rs, fmt.Sprintf(`{"module":"module.%s","mode":"managed","type":"t","name":"n%d"}`, strings.Repeat("m", 300), i))
	}
	list := inventoryOf(t, `{"version":4,"resources":[`+strings.Join(rs, ",")+`]}`)
	if n := len(list.Resources()); n != state.MaxResources || list.Truncated {
		t.Errorf("%d resources, truncated %t; want all %d", n, list.Truncated, state.MaxResources)
	}
}

// TestInventoryAgreesWithEncodingJSON draws documents and reads them by the other way.
func TestInventoryAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type resource struct {
			Module    string `json:"module,omitempty"`
			Mode      string `json:"mode"`
			Type      string `json:"type"`
			Name      string `json:"name"`
			Provider  string `json:"provider"`
			Instances []any  `json:"instances"`
		}
		text := rapid.StringMatching(`[a-c<é"\\\n]{1,3}`)
		rs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) resource {
			return resource{
				rapid.SampledFrom([]string{"", "module.a", `module.a["b"]`}).Draw(t, "module"), rapid.SampledFrom([]string{"managed", "data"}).Draw(t, "mode"),
				text.Draw(t, "type"), text.Draw(t, "name"), `provider["` + aws + `"]`, make([]any, rapid.IntRange(0, 3).Draw(t, "instances")),
			}
		}), 0, 8).Draw(t, "resources")
		doc, err := json.Marshal(map[string]any{"version": 4, "resources": rs, "outputs": map[string]any{"type": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{}
		for _, r := range rs {
			address := r.Type + "." + r.Name
			if r.Mode == "data" {
				address = "data." + address
			}
			if r.Module != "" {
				address = r.Module + "." + address
			}
			want[address] += int64(len(r.Instances))
		}
		s := state.NewScanner()
		if _, err := s.Write(doc); err != nil {
			t.Fatal(err)
		}
		d, err := s.Finish()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		var addresses []string
		for _, r := range d.Inventory.Resources() {
			got[r.Address] = r.Instances
			addresses = append(addresses, r.Address)
			if r.Provider != aws {
				t.Fatalf("%s: provider %q", r.Address, r.Provider)
			}
		}
		if !reflect.DeepEqual(got, want) || !slices.IsSorted(addresses) || d.Inventory.Truncated {
			t.Fatalf("%s: got %v, want %v", doc, got, want)
		}
	})
}

func TestInventoryHashTellsListsApart(t *testing.T) {
	seen := map[string]string{}
	for _, rs := range []string{
		``, `{"mode":"managed","type":"a","name":"b","instances":[]}`, `{"mode":"managed","type":"a","name":"b","instances":[{}]}`,
		`{"mode":"data","type":"a","name":"b","instances":[]}`, `{"mode":"managed","type":"ab","name":"","instances":[]}`,
		`{"mode":"managed","type":"a","name":"b","provider":"p","instances":[]}`, `{"module":"m","mode":"managed","type":"a","name":"b","instances":[]}`,
	} {
		list := inventoryOf(t, `{"version":4,"resources":[`+rs+`]}`)
		if before, there := seen[list.Hash]; there || list.Hash == "" {
			t.Errorf("%q and %q have the hash %q", before, rs, list.Hash)
		}
		seen[list.Hash] = rs
		if values := inventoryOf(t, `{"version":4,"serial":9,"outputs":{"a":{"value":1}},"resources":[`+strings.ReplaceAll(rs, "[{}]", `[{"attributes":{"x":1}}]`)+`]}`); values.Hash != list.Hash {
			t.Errorf("%q: the hash depends on values", rs)
		}
	}
}
