package state_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

func TestLockDocument(t *testing.T) {
	const full = `{"ID":"u","Operation":"OperationTypePlan","Info":"i","Who":"root@vm","Version":"1.12.6","Created":"2026-11-29T16:36:39.32552424Z","Path":"p"}`
	want := state.LockInfo{ID: "u", Operation: "OperationTypePlan", Info: "i", Who: "root@vm", Version: "1.12.6", Created: "2026-11-29T16:36:39.32552424Z", Path: "p"}
	for name, c := range map[string]struct {
		doc  string
		want state.LockInfo
	}{
		"as the tools send it":  {full, want},
		"indented":              {"{\n \"ID\": \"u\"\n}\n", state.LockInfo{ID: "u"}},
		"W8 only an ID":         {`{"ID":"some-id","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, state.LockInfo{ID: "some-id", Created: "0001-01-01T00:00:00Z"}},
		"L09 unknown fields":    {`{"ID":"u","x":{"ID":7},"id":5,"y":null}`, state.LockInfo{ID: "u"}},
		"L09 Created is a word": {`{"ID":"u","Created":"yesterday"}`, state.LockInfo{ID: "u"}},
		"L09 Created lenient":   {`{"ID":"u","Created":"2026-01-02T03:04:05,5Z"}`, state.LockInfo{ID: "u"}},
		"L09 Created year 9999": {`{"ID":"u","Created":"9999-12-31T23:59:59Z"}`, state.LockInfo{ID: "u", Created: "9999-12-31T23:59:59Z"}},
		"L09 replacement mark":  {"{\"ID\":\"u\",\"Who\":\"a\ufffdb\"}", state.LockInfo{ID: "u", Who: "a\ufffdb"}},
		"L09 odd Who":           {"{\"ID\":\"u\",\"Who\":\"Žofie@日本-host\u202eevil\"}", state.LockInfo{ID: "u", Who: "Žofie@日本-host\u202eevil"}},
		"escapes":               {`{"ID":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}`, state.LockInfo{ID: "é😀\"\\/\b\f\n\r\t"}},
		"ID of 255 characters":  {`{"ID":"` + strings.Repeat("é", 255) + `"}`, state.LockInfo{ID: strings.Repeat("é", 255)}},
		"L09 Info of 15 KiB":    {`{"ID":"u","Info":"` + strings.Repeat("x", 15<<10) + `"}`, state.LockInfo{ID: "u", Info: strings.Repeat("x", 15<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := state.ParseLock([]byte(c.doc))
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestLockDocumentIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		kind fault.Kind
	}{
		"L05 no ID":             {`{}`, fault.Invalid},
		"L05 empty ID":          {`{"ID":""}`, fault.Invalid},
		"L05 ID as number":      {`{"ID":5}`, fault.Invalid},
		"L05 a list":            {`["ID","u"]`, fault.Invalid},
		"L05 ID as object":      {`{"ID":{"a":"u"}}`, fault.Invalid},
		"L05 ID as true":        {`{"ID":true}`, fault.Invalid},
		"L05 Who as number":     {`{"ID":"u","Who":12345}`, fault.Invalid},
		"L09 no pair, then u":   {`{"ID":"u","Who":"\ud83dxude00"}`, fault.Invalid},
		"L09 no pair, escape":   {`{"ID":"u","Who":"\ud83d\nde00"}`, fault.Invalid},
		"L09 bytes of no text":  {"{\"ID\":\"u\",\"Who\":\"a\xffb\"}", fault.Invalid},
		"L05 not JSON":          {`hello`, fault.Invalid},
		"empty":                 {``, fault.Invalid},
		"a list":                {`["ID"]`, fault.Invalid},
		"cut":                   {`{"ID":"u"`, fault.Invalid},
		"trailing":              {`{"ID":"u"} {}`, fault.Invalid},
		"ID of 256 characters":  {`{"ID":"` + strings.Repeat("é", 256) + `"}`, fault.Invalid},
		"Who as object":         {`{"ID":"u","Who":{}}`, fault.Invalid},
		"Created as null":       {`{"ID":"u","Created":null}`, fault.Invalid},
		"L09 ID twice":          {`{"ID":"u","ID":"v"}`, fault.Invalid},
		"L09 ID twice, escaped": {`{"ID":"u","\u0049D":"v"}`, fault.Invalid},
		"L09 half a pair":       {`{"ID":"u","Who":"\ud800"}`, fault.Invalid},
		"L09 wrong pair":        {`{"ID":"u","Who":"\ud800\u0041"}`, fault.Invalid},
		"L09 NUL":               {`{"ID":"u\u0000"}`, fault.Invalid},
		"no UTF-8":              {"{\"ID\":\"\xff\"}", fault.Invalid},
		"L09 64 KiB":            {`{"ID":"u","Info":"` + strings.Repeat("x", 64<<10) + `"}`, fault.TooLarge},
		"one byte over":         {`{"ID":"u","Info":"` + strings.Repeat("x", state.MaxLockBytes-19+1) + `"}`, fault.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := state.ParseLock([]byte(c.doc)); !fault.Is(err, c.kind) {
				t.Errorf("got %+v, %v; want %s", got, err, c.kind)
			}
		})
	}
	if _, err := state.ParseLock([]byte(`{"ID":"u","Info":"` + strings.Repeat("x", state.MaxLockBytes-20) + `"}`)); err != nil {
		t.Errorf("a document of exactly the limit: %v", err)
	}
}

// L01, W8: Terraform's force-unlock sends nothing at all, OpenTofu's an ID and nothing else.
func TestL01UnlockDocument(t *testing.T) {
	for _, c := range []struct {
		doc, id string
		force   bool
	}{
		{``, "", true},
		{`{"ID":"abc","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, "abc", true},
		{`{"ID":"abc"}`, "abc", false},
		{`{"ID":"abc","Operation":"OperationTypeApply","Info":"","Who":"a@b","Version":"1.12.6","Created":"2026-11-29T16:36:39.3Z","Path":""}`, "abc", false},
		{`{"ID":"abc","Who":"a@b","Created":"0001-01-01T00:00:00Z"}`, "abc", false},
	} {
		if id, force, err := state.ParseUnlock([]byte(c.doc)); err != nil || id != c.id || force != c.force {
			t.Errorf("%q: %q, force %t, %v; want %q, %t", c.doc, id, force, err, c.id, c.force)
		}
	}
	for _, doc := range []string{`{}`, `{"ID":""}`, ` `, `null`, `{"ID":1}`} {
		if got, _, err := state.ParseUnlock([]byte(doc)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %q, %v; want invalid: it names no lock and is no empty request", doc, got, err)
		}
	}
}

func FuzzLockDocument(f *testing.F) {
	for _, s := range []string{
		`{"ID":"u","Operation":"o","Created":"2026-11-29T16:36:39Z"}`,
		`{"ID":"\ud83d\ude00","x":[{}]}`,
		`{"ID":"a","ID":"b"}`, `{"ID":"a","\u0049D":"b"}`, `{"id":"a"}`, `{"ID":"a","id":"b"}`,
		// What the tools send: an apply's, OpenTofu's force-unlock, Terraform's.
		`{"ID":"6f1f3f0e-0000-0000-0000-000000000000","Operation":"OperationTypeApply","Info":"","Who":"root@vm","Version":"1.12.6","Created":"2026-11-29T16:36:39.32552424Z","Path":""}`,
		`{"ID":"abc","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, ``,
		`{}`, `{"ID":""}`, `{"ID":1}`, `{"ID":null}`, `null`, `[]`, `"ID"`, `{"ID":"a"}{}`, `{"ID":"a",}`, "\xef\xbb\xbf{\"ID\":\"a\"}", // L05
		// L09
		`{"ID":"u","Who":"Žofie@日本-host` + "\u202e" + `evil"}`, `{"ID":"u","Who":"\ud800"}`, `{"ID":"u","Who":"\udc00\ud800"}`, `{"ID":"u\u0000"}`, "{\"ID\":\"\xff\"}",
		`{"ID":"u","Created":"9999-12-31T23:59:59.999999999+23:59"}`, `{"ID":"u","Created":"2026-11-29T16:36:39,5Z"}`, `{"ID":"u","Created":"2026-02-30T00:00:00Z"}`,
		`{"ID":"` + strings.Repeat("é", state.MaxLockIDChars) + `"}`, `{"ID":"` + strings.Repeat("x", state.MaxLockIDChars+1) + `"}`,
		`{"ID":"u","Info":"` + strings.Repeat("<", state.MaxLockBytes/6) + `"}`, `{"ID":"u","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 7000) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		info, err := state.ParseLock(doc)
		if err != nil {
			if fault.Code(err) == "" {
				t.Fatalf("an error without a public side: %v", err)
			}
			return
		}
		var read state.LockInfo
		if err := json.Unmarshal(doc, &read); err != nil && !json.Valid(doc) {
			t.Fatalf("taken, but it is not JSON: %q", doc)
		}
		for _, text := range []string{info.ID, info.Operation, info.Info, info.Who, info.Version, info.Created, info.Path} {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Fatalf("%q gave %q, which cannot be stored", doc, text)
			}
		}
		// What is answered to others must be read as it was taken.
		raw, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := state.ParseLock(raw); err != nil && len(raw) <= state.MaxLockBytes || err == nil && again != info {
			t.Fatalf("%q is stored as %s and read back as %+v, %v", doc, raw, again, err)
		}
	})
}
