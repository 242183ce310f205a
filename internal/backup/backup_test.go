package backup_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/fault"
)

var (
	things = backup.Table{Name: "things", Columns: []backup.Column{
		{Name: "id", Type: backup.Text}, {Name: "n", Type: backup.Bigint}, {Name: "yes", Type: backup.Boolean}, {Name: "data", Type: backup.Bytes},
	}}
	none = backup.Table{Name: "none", Columns: []backup.Column{{Name: "id", Type: backup.Text}}}
	head = backup.Header{
		Format: backup.Format, ID: "bak_1", CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC), Holdfast: "1.2.3", Schema: 3, States: 2,
		Keys:  []backup.KeyUse{{Kind: "platform", Name: "0a0b0c0d", Version: "1", Objects: 2}},
		Audit: []backup.Anchor{{Organization: "default", Org: "org_1", Seq: 7, Hash: strings.Repeat("a", 64)}},
	}
)

// rows hold what a text, a number and bytes can be.
func rows() [][]any {
	return [][]any{
		{"", int64(0), false, []byte{}},
		{"plain", int64(math.MaxInt64), true, []byte{0, 1, 2, 255}},
		{"\"\\\n\r\t\x00\x01\x1f </script> & \u2028 \U0010ffff é", int64(math.MinInt64), true, bytes.Repeat([]byte{7}, 30<<10)},
	}
}

func write(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, head)
	ok(t, err)
	ok(t, w.Table(things))
	for _, r := range rows() {
		ok(t, w.Row(r))
	}
	ok(t, w.Table(none))
	_, err = w.Close()
	ok(t, err)
	return out.Bytes()
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(from []byte) (got [][]any, tables []string, end backup.Trailer, err error) {
	r, err := backup.NewReader(bytes.NewReader(from))
	if err != nil {
		return nil, nil, end, err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			for _, t := range r.Tables() {
				tables = append(tables, t.Name)
			}
			return got, tables, r.Trailer(), nil
		}
		if err != nil {
			return nil, nil, end, err
		}
		got = append(got, row.Values)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	file := write(t)
	got, tables, end, err := read(file)
	ok(t, err)
	if diff := cmp.Diff(rows(), got); diff != "" {
		t.Errorf("rows (-want +got):\n%.2000s", diff)
	}
	if want := []string{"things", "none"}; !slices.Equal(tables, want) {
		t.Errorf("tables %q, want %q", tables, want)
	}
	if end.Rows() != 3 || end.Tables["none"] != 0 || len(end.SHA256) != 64 {
		t.Errorf("the end says %+v", end)
	}
	whole, err := backup.Verify(bytes.NewReader(file), func(int64) error { return nil })
	ok(t, err)
	if diff := cmp.Diff(head, whole.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	stopped := errors.New("stopped")
	if _, err := backup.Verify(bytes.NewReader(file), func(rows int64) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("a check that was told to stop: %v, want that error", err)
	}
}

// wantRefused wants one of the clear refusals.
func wantRefused(t *testing.T, what string, file []byte, codes ...string) {
	t.Helper()
	got, _, _, err := read(file)
	if !slices.Contains(codes, fault.Code(err)) {
		t.Errorf("%s: %d rows, %v, want an error with a code of %q", what, len(got), err, codes)
	}
}

func TestEveryCutIsSeen(t *testing.T) {
	file := write(t)
	for n := range len(file) {
		wantRefused(t, "a cut", file[:n], backup.CodeDamaged, "no_backup")
	}
	wantRefused(t, "bytes after the end", append(slices.Clone(file), 'x'), backup.CodeDamaged)
	wantRefused(t, "another stream after the end", append(slices.Clone(file), file...), backup.CodeDamaged)
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	file := write(t)
	for i := range file {
		changed := slices.Clone(file)
		changed[i] ^= 1 << (i % 8)
		got, _, _, err := read(changed)
		if err == nil {
			// A few bits of the compressed form mean nothing. What is read must then be what was written.
			if diff := cmp.Diff(rows(), got); diff != "" {
				t.Errorf("byte %d changed: other rows, and no error", i)
			}
			continue
		}
		if c := fault.Code(err); c != backup.CodeDamaged && c != "no_backup" {
			t.Errorf("byte %d changed: %v, want a refusal", i, err)
		}
	}
}

// pack compresses lines, as a writer that means ill can.
func pack(t testing.TB, lines ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	ok(t, err)
	_, err = io.WriteString(w, strings.Join(lines, ""))
	ok(t, err)
	ok(t, w.Close())
	return out.Bytes()
}

// ended adds an end with the right sum, and with those tables.
func ended(tables string, lines ...string) []string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return append(lines, fmt.Sprintf("{\"end\":{\"tables\":%s,\"sha256\":\"%x\"}}\n", tables, sum))
}

func TestWrongContentIsNamed(t *testing.T) {
	const (
		header = `{"holdfast_backup":1,"id":"bak_1","schema":3}` + "\n"
		table  = `{"table":"a","columns":[{"name":"id","type":"text"},{"name":"n","type":"bigint"},{"name":"b","type":"bytea"},{"name":"y","type":"boolean"}]}` + "\n"
	)
	for name, c := range map[string]struct {
		lines []string
		code  string
		says  string
	}{
		"nothing":             {nil, "no_backup", ""},
		"a text":              {[]string{"hello\n"}, "no_backup", ""},
		"a newer format":      {[]string{`{"holdfast_backup":2,"id":7}` + "\n"}, "backup_newer", "format 2"},
		"no format":           {[]string{`{"holdfast_backup":"x"}` + "\n"}, backup.CodeDamaged, "header"},
		"no id":               {[]string{`{"holdfast_backup":1,"schema":3}` + "\n"}, backup.CodeDamaged, "header"},
		"no schema":           {[]string{`{"holdfast_backup":1,"id":"x"}` + "\n"}, backup.CodeDamaged, "header"},
		"no end":              {[]string{header, table}, backup.CodeDamaged, "unexpected EOF"},
		"a row before tables": {[]string{header, "[]\n"}, backup.CodeDamaged, "before the first table"},
		"a wrong sum":         {[]string{header, `{"end":{"tables":{},"sha256":"00"}}` + "\n"}, backup.CodeDamaged, "SHA-256"},
		"an empty end":        {[]string{header, `{"end":null}` + "\n"}, backup.CodeDamaged, "end"},
		"a name to inject":    {[]string{header, `{"table":"a\" (x) --","columns":[{"name":"id","type":"text"}]}` + "\n"}, backup.CodeDamaged, "no table such as"},
		"a column to inject":  {[]string{header, `{"table":"a","columns":[{"name":"i\"d","type":"text"}]}` + "\n"}, backup.CodeDamaged, "no column"},
		"a type":              {[]string{header, `{"table":"a","columns":[{"name":"id","type":"money"}]}` + "\n"}, backup.CodeDamaged, "money"},
		"a table twice":       {[]string{header, table, table}, backup.CodeDamaged, "twice"},
		"too few values":      {[]string{header, table, `["x"]` + "\n"}, backup.CodeDamaged, "row 1 of a"},
		"a null":              {[]string{header, table, `[null,1,"",true]` + "\n"}, backup.CodeDamaged, "id"},
		"a fraction":          {[]string{header, table, `["x",1.5,"",true]` + "\n"}, backup.CodeDamaged, "n:"},
		"a huge number":       {[]string{header, table, `["x",9223372036854775808,"",true]` + "\n"}, backup.CodeDamaged, "n:"},
		"a wrong base64":      {[]string{header, table, `["x",1,"====",true]` + "\n"}, backup.CodeDamaged, "b:"},
		"a wrong boolean":     {[]string{header, table, `["x",1,"","true"]` + "\n"}, backup.CodeDamaged, "y:"},
		"nesting":             {[]string{header, table, strings.Repeat("[", 100_000) + "\n"}, backup.CodeDamaged, ""},
		"an endless header":   {[]string{`{"holdfast_backup":` + strings.Repeat(" ", 130<<20)}, backup.CodeDamaged, "longer than"},
		"rows too many":       {ended(`{"a":0}`, header, table, `["x",1,"",true]`+"\n"), backup.CodeDamaged, "other rows"},
		"a table too few":     {ended(`{"a":0,"b":0}`, header, table), backup.CodeDamaged, "other rows"},
	} {
		_, _, _, err := read(pack(t, c.lines...))
		if fault.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %.300v, want code %s and %q", name, err, c.code, c.says)
		}
	}
}

func TestWriterRefusesWhatWouldNotComeBack(t *testing.T) {
	w, err := backup.NewWriter(io.Discard, head)
	ok(t, err)
	ok(t, w.Table(things))
	for name, row := range map[string][]any{
		"bad UTF-8":       {"\xff", int64(1), true, []byte{}},
		"a NULL":          {nil, int64(1), true, []byte{}},
		"a type":          {"x", "1", true, []byte{}},
		"too few values":  {"x"},
		"an int of 32":    {"x", int32(1), true, []byte{}},
		"too long a text": {strings.Repeat("x", 129<<20), int64(1), true, []byte{}},
	} {
		if err := w.Row(row); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := w.Table(things); err == nil {
		t.Error("a table twice: no error")
	}
	if err := w.Table(backup.Table{Name: "x", Columns: []backup.Column{{Name: "id", Type: "uuid"}}}); err == nil {
		t.Error("an unknown type: no error")
	}
}

// FuzzReader gives the reader files that anybody may have made. Whatever they hold, it ends with a refusal or with what
// a writer would write again.
func FuzzReader(f *testing.F) {
	file := write(f)
	f.Add(file, false)
	plain, err := zstd.NewReader(bytes.NewReader(file))
	ok(f, err)
	text, err := io.ReadAll(plain)
	ok(f, err)
	f.Add(text, true)
	f.Add([]byte(`{"holdfast_backup":1,"id":"b","schema":1}`+"\n"+`{"table":"a","columns":[{"name":"a","type":"bytea"}]}`+"\n"+`["AA=="]`+"\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, lines bool) {
		if lines {
			in = pack(t, string(in))
		}
		_, _, end, err := read(in)
		if err == nil && len(end.SHA256) != 64 {
			t.Errorf("taken for whole without a sum: %+v", end)
		}
		if err != nil && !slices.Contains([]string{backup.CodeDamaged, "no_backup", "backup_newer"}, fault.Code(err)) {
			t.Errorf("the error %v is none of the reader's", err)
		}
	})
}
