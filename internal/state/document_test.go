package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

// scan gives the document to a scanner, whole and in pieces of each small size; all have to say the same.
func scan(t testing.TB, doc []byte) (state.Document, error) {
	t.Helper()
	d, _, err := scanAll(t, doc)
	return d, err
}

// scanAll also gives the inventory, which it takes out of the document.
func scanAll(t testing.TB, doc []byte) (state.Document, *state.Inventory, error) {
	t.Helper()
	s := state.NewScanner()
	_, err := s.Write(doc)
	var d state.Document
	if err == nil {
		d, err = s.Finish()
	}
	for _, size := range []int{1, 7} {
		s := state.NewScanner()
		r := bytes.NewReader(doc)
		var pieceErr error
		for buf := make([]byte, size); pieceErr == nil; {
			n, end := r.Read(buf)
			if end != nil {
				break
			}
			_, pieceErr = s.Write(buf[:n])
		}
		var piece state.Document
		if pieceErr == nil {
			piece, pieceErr = s.Finish()
		}
		if !reflect.DeepEqual(piece, d) || fmt.Sprint(pieceErr) != fmt.Sprint(err) {
			t.Fatalf("%q in pieces of %d: %+v, %v; whole: %+v, %v", doc, size, piece, pieceErr, d, err)
		}
	}
	list := d.Inventory
	d.Inventory = nil
	if (list == nil) != (err != nil) {
		t.Fatalf("%q: inventory %v, error %v; want one of them", doc, list, err)
	}
	return d, list, err
}

func TestDocumentSaysWhatItIs(t *testing.T) {
	known := func(n uint64) state.Serial { return state.Serial{N: n, Known: true} }
	for name, c := range map[string]struct {
		doc  string
		want state.Document
	}{
		"compact": {
			`{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"a-b","outputs":{},"resources":[],"check_results":null}`,
			state.Document{Serial: known(3), Lineage: "a-b", Terraform: "1.12.6"},
		},
		"indented": {
			"{\n  \"version\": 4,\n  \"serial\": 0,\n  \"lineage\": \"x\",\n  \"resources\": [\n    {}\n  ]\n}\n",
			state.Document{Serial: known(0), Lineage: "x", Resources: true},
		},
		"outputs only":        {`{"version":4,"outputs":{"a":{"value":1}},"resources":[]}`, state.Document{Resources: true}},
		"big serial":          {`{"version":4,"serial":18446744073709551615}`, state.Document{Serial: known(18446744073709551615)}},
		"no serial":           {`{"version":4}`, state.Document{}},
		"null serial":         {`{"version":4,"serial":null,"lineage":null}`, state.Document{}},
		"other case":          {`{"Version":4,"SERIAL":7}`, state.Document{Serial: known(7)}},
		"escaped names":       {`{"\u0076ersion":4,"s\u0065rial":9,"lineage":"\u0061\"b"}`, state.Document{Serial: known(9), Lineage: `a"b`}},
		"unknown fields":      {`{"version":4,"x":[{"serial":"no"},"\ud800",1e9],"serial":2}`, state.Document{Serial: known(2)}},
		"nested serial":       {`{"version":4,"resources":[{"serial":5,"lineage":"no"}],"serial":2}`, state.Document{Serial: known(2), Resources: true}},
		"odd tool version":    {`{"version":4,"terraform_version":"` + strings.Repeat("9", 65) + `"}`, state.Document{}},
		"encrypted":           {`{"serial":2,"lineage":"l","meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}`, state.Document{Serial: known(2), Lineage: "l", Encrypted: true}},
		"encrypted, old form": {`{"meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`, state.Document{Encrypted: true}},
		"long encrypted data": {`{"encrypted_data":"` + strings.Repeat("A", 1<<20) + `","serial":1}`, state.Document{Serial: known(1), Encrypted: true}},
		"sly tool version":    {"{\"version\":4,\"terraform_version\":\"1.12\u202e\"}", state.Document{}},
		"tool version number": {`{"version":4,"terraform_version":112}`, state.Document{}},
		"version, encrypted":  {`{"version":4,"serial":1,"encrypted_data":"x"}`, state.Document{Serial: serial(1)}},
		"invalid UTF-8":       {"{\"version\":4,\"x\":\"\xff\"}", state.Document{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := scan(t, []byte(c.doc))
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestDocumentIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ doc, code string }{
		"empty":                {``, "invalid_json"},
		"white space":          {"  \n", "invalid_json"},
		"text":                 {`hello`, "invalid_json"},
		"a list":               {`[]`, "invalid_json"},
		"null":                 {`null`, "invalid_json"},
		"byte order mark":      {"\ufeff{\"version\":4}", "invalid_json"},
		"cut":                  {`{"version":4,"serial":1`, "invalid_json"},
		"two documents":        {`{"version":4}{"version":4}`, "invalid_json"},
		"trailing comma":       {`{"version":4,}`, "invalid_json"},
		"control in string":    {"{\"version\":4,\"x\":\"a\nb\"}", "invalid_json"},
		"leading zero":         {`{"version":04}`, "invalid_json"},
		"no version":           {`{}`, "invalid_state"},
		"version 5":            {`{"version":5}`, "invalid_state"},
		"version as text":      {`{"version":"4"}`, "invalid_state"},
		"S24 version 3":        {`{"version":3,"serial":1,"modules":[]}`, "state_too_old"},
		"version 1":            {`{"version":1}`, "state_too_old"},
		"serial twice":         {`{"version":4,"serial":1,"serial":2}`, "invalid_state"},
		"serial in two cases":  {`{"version":4,"serial":1,"Serial":2}`, "invalid_state"},
		"serial folded":        {`{"version":4,"serial":1,"ſerial":2}`, "invalid_state"},
		"lineage twice":        {`{"version":4,"lineage":"a","line\u0061ge":"b"}`, "invalid_state"},
		"resources twice":      {`{"version":4,"resources":[],"resources":[]}`, "invalid_state"},
		"serial as text":       {`{"version":4,"serial":"1"}`, "invalid_state"},
		"serial below zero":    {`{"version":4,"serial":-1}`, "invalid_state"},
		"serial as fraction":   {`{"version":4,"serial":1.0}`, "invalid_state"},
		"serial past 64 bits":  {`{"version":4,"serial":18446744073709551616}`, "invalid_state"},
		"serial of 10k digits": {`{"version":4,"serial":` + strings.Repeat("1", 10000) + `}`, "invalid_state"},
		"serial as object":     {`{"version":4,"serial":{}}`, "invalid_state"},
		"lineage as number":    {`{"version":4,"lineage":1}`, "invalid_state"},
		"lineage with NUL":     {`{"version":4,"lineage":"a\u0000"}`, "invalid_state"},
		"lineage half a pair":  {`{"version":4,"lineage":"\ud800"}`, "invalid_state"},
		"lineage too long":     {`{"version":4,"lineage":"` + strings.Repeat("x", 256) + `"}`, "invalid_state"},
		"lineage far too long": {`{"version":4,"lineage":"` + strings.Repeat("x", 1<<20) + `"}`, "invalid_state"},
		"lineage long escapes": {`{"version":4,"lineage":"` + strings.Repeat(`\"`, 5000) + `"}`, "invalid_state"},
		"encrypted, no text":   {`{"encrypted_data":5}`, "invalid_state"},
		"lineage unprintable":  {"{\"version\":4,\"lineage\":\"a\u202eb\"}", "invalid_state"},
		"too deep":             {`{"version":4,"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, "invalid_state"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := scan(t, []byte(c.doc)); fault.Code(err) != c.code {
				t.Errorf("got %+v, %v; want the code %s", got, err, c.code)
			}
		})
	}
}

// S06: a rollback changes the serial's digits and nothing else, so it has to know where they stand.
func TestS06SerialIsFound(t *testing.T) {
	for _, c := range []struct{ before, digits, after string }{
		{`{"version":4,"serial":`, "3", `,"lineage":"serial: 9"}`},
		{"{\n  \"version\": 4,\n  \"serial\":\t", "18446744073709551615", "\n}\n"},
		{`{"resources":[{"serial":1}],"\u0073erial":  `, "0", `,"version":4}`},
	} {
		for _, size := range []int{1, 3, 1000} {
			s := state.NewScanner()
			doc := c.before + c.digits + c.after
			for rest := doc; rest != ""; {
				n := min(size, len(rest))
				if _, err := s.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if _, err := s.Finish(); err != nil {
				t.Fatal(err)
			}
			if at := s.SerialAt(); doc[at.At:at.At+at.Len] != c.digits {
				t.Errorf("%q in pieces of %d: found at %+v, want %q", doc, size, at, c.digits)
			}
		}
	}
}

func TestOldFormatSaysHowToUpgrade(t *testing.T) {
	_, err := scan(t, []byte(`{"version":3}`))
	if f := fault.From(err); f.Kind != fault.Unprocessable || !strings.Contains(f.Hint, "Terraform 0.13") {
		t.Errorf("kind %s, hint %q; want unprocessable and the way to upgrade", f.Kind, f.Hint)
	}
}

// FuzzDocument holds the scanner against encoding/json, which is what the tools read documents with.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{"version":4,"serial":1,"lineage":"a","resources":[{"a":[1,-0.5e+10,true,false,null,"\u00e9\\\/\b"]}]}`,
		`{"version":4}`, `{"a":{}}`, `{ "a" : [ ] , "b":0}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":"\x"}`, `{"a":tru}`, "{\"a\":\"\x1f\"}",
		`{"a":01}`, `{,}`, `{"a"}`, `{"a":1 2}`, `[1]`, `{"a":nul}`, `{"a":"\u12G4"}`, `{"a":"12345678901234567890\"1234567"}`, `{"a":1}x`,
		`{"encrypted_data":"a","serial":1}`, `{"version":4,"version":4}`, `{"a":1E-9,"b":-0}`,
		// As the tools write: OpenTofu's line, Terraform's indentation and last newline, numbers and escapes that stay exact (W10), encrypted (W11).
		`{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"0f5e3ba7-62d1-4a45-8b5d-4a0f4c6bd6a1","outputs":{},"resources":[],"check_results":null}`,
		"{\n  \"version\": 4,\n  \"terraform_version\": \"1.11.4\",\n  \"serial\": 12345678901234567890,\n  \"lineage\": \"a\"\n}\n",
		`{"version":4,"serial":2,"lineage":"a","outputs":{"o":{"value":9007199254740993,"type":"number","t":"\u003c\u003e\u0026\u2028"}}}`,
		`{"serial":2,"lineage":"a","meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}`,
		`{"version":4,"serial":18446744073709551615}`, `{"version":4,"serial":18446744073709551616}`, `{"version":4,"serial":-1}`, `{"version":4,"serial":1.0}`, `{"version":4,"serial":1e0}`,
		`{"version":"4"}`, `{"version":3}`, `{"version":5}`, `{"version":4,"lineage":"\u0000"}`, `{"version":4,"lineage":"\ud800"}`, "{\"version\":4,\"lineage\":\"\xff\"}",
		`{"version":4,"lineage":7}`, `{"version":4,"Serial":1,"serial":2}`, `{"version":4,"serial":2,"SERIAL":1}`, `{"version":4,"ſerial":2}`, `{"lineage":"a","Lineage":"b","VERSION":4}`, `{"version":4,"\u0073erial":1,"serial":2}`, "\xef\xbb\xbf{\"version\":4}", `{"version":4}{}`, `{"version":4} `, ``, ` `,
		`{"version":4,"resources":[{"instances":[{"index_key":0,"deposed":"00000000","status":"tainted","attributes":{"serial":9,"lineage":"b","version":3}}]}]}`,
		`{"version":4,"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, `{"version":4,"a":` + strings.Repeat(`{"a":`, 2000) + "0" + strings.Repeat("}", 2000) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := scan(t, doc)
		code := fault.Code(err)
		if err != nil && code == "" {
			t.Fatalf("an error without a public side: %v", err)
		}
		valid := json.Valid(doc) && bytes.HasPrefix(bytes.TrimLeft(doc, " \t\r\n"), []byte("{"))
		if !valid && err == nil {
			t.Fatalf("taken, but encoding/json refuses it: %q", doc)
		}
		if valid && code == "invalid_json" {
			t.Fatalf("refused, but encoding/json takes it: %q: %v", doc, err)
		}
		if err != nil {
			return
		}
		var read struct {
			Version uint64
			Serial  uint64
			Lineage string
		}
		if err := json.Unmarshal(doc, &read); err != nil {
			return // a field that the tools cannot read, in a place nobody asks here
		}
		if read.Serial != got.Serial.N || read.Lineage != got.Lineage || !got.Encrypted && read.Version != 4 {
			t.Fatalf("%q: got %+v, encoding/json reads %+v", doc, got, read)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	var doc bytes.Buffer
	doc.WriteString(`{"version":4,"serial":1,"lineage":"aaa","resources":[`)
	for i := range 2000 {
		fmt.Fprintf(&doc, `%s{"mode":"managed","type":"aws_instance","name":"web_%d","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]",`+
			`"instances":[{"schema_version":1,"attributes":{"id":"i-0123456789abcdef0","arn":"arn:aws:ec2:eu-west-1:123456789012:instance/i-%d","tags":{"Name":"web"}}}]}`, strings.Repeat(",", min(i, 1)), i, i)
	}
	doc.WriteString(`]}`)
	indented := new(bytes.Buffer)
	if err := json.Indent(indented, doc.Bytes(), "", "  "); err != nil {
		b.Fatal(err)
	}
	for name, d := range map[string][]byte{"compact": doc.Bytes(), "indented": indented.Bytes()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(d)))
			b.ReportAllocs()
			for b.Loop() {
				s := state.NewScanner()
				if _, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{bytes.NewReader(d)}, make([]byte, 32<<10)); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+", encoding/json", func(b *testing.B) {
			b.SetBytes(int64(len(d)))
			for b.Loop() {
				if !json.Valid(d) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
