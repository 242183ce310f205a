package source

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/fault"
)

// tree writes files below a new folder; a value "-> x" is a link to x, and a name that ends in / is a folder.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			must(t, os.Symlink(target, at))
			continue
		}
		must(t, os.WriteFile(at, []byte(content), 0o644))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents reads a tree back in the form tree takes.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		switch {
		case e.IsDir():
			if entries, _ := os.ReadDir(at); len(entries) == 0 {
				out[name+"/"] = ""
			}
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(at)
			out[name] = "-> " + target
			return err
		default:
			b, err := os.ReadFile(at)
			out[name] = string(b)
			return err
		}
		return nil
	}))
	return out
}

func pack(t testing.TB, dir string) ([]byte, *Packed) {
	t.Helper()
	var b bytes.Buffer
	p, err := Pack(context.Background(), dir, &b, Limits{})
	must(t, err)
	return b.Bytes(), p
}

func TestPackAndUnpack(t *testing.T) {
	files := map[string]string{
		"main.tf": "# main", "modules/net/main.tf": "# net", "empty/": "", "files/a b ü.txt": "x", "link.tf": "-> modules/net/main.tf",
		"modules/up": "-> ../main.tf", "dirlink": "-> modules", ".terraform.lock.hcl": "# lock", "run.sh": "#!/bin/sh", "zero": "",
	}
	dir := tree(t, files)
	must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o700))
	archive, p := pack(t, dir)
	if p.Files != 6 || p.Archive != int64(len(archive)) || !strings.HasPrefix(p.Digest, "sha256:") || len(p.LeftOut) != 0 {
		t.Errorf("packed %+v", p)
	}
	to := t.TempDir()
	must(t, Unpack(context.Background(), bytes.NewReader(archive), to, Limits{}))
	if got := contents(t, to); !maps.Equal(got, files) {
		t.Errorf("got  %v\nwant %v", got, files)
	}
	for name, want := range map[string]fs.FileMode{"run.sh": 0o100, "main.tf": 0} {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil || info.Mode()&0o100 != want {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestPackIsDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,3}(/[a-c]{1,3}){0,2}\.tf`), 1, 12, rapid.ID).Draw(rt, "names")
		one, two := t.TempDir(), t.TempDir()
		for i, dir := range []string{one, two} {
			order := slices.Clone(names)
			if i == 1 {
				slices.Reverse(order)
			}
			for _, n := range order {
				at := filepath.Join(dir, n)
				must(t, os.MkdirAll(filepath.Dir(at), 0o755))
				must(t, os.WriteFile(at, []byte(strings.Repeat(n, 500)), fs.FileMode(0o600+i*0o044)))
				must(t, os.Chtimes(at, time.Unix(int64(i)*1e6, 0), time.Unix(int64(i)*1e6, 0)))
			}
		}
		a, pa := pack(t, one)
		b, pb := pack(t, two)
		if !bytes.Equal(a, b) || pa.Digest != pb.Digest {
			rt.Fatalf("the same tree %v gives two archives", names)
		}
		to := t.TempDir()
		must(t, Unpack(context.Background(), bytes.NewReader(a), to, Limits{}))
		if c, _ := pack(t, to); !bytes.Equal(a, c) {
			rt.Fatalf("packed again it differs: %v", names)
		}
	})
}

func TestX40_ArchivesCarryNoSecrets(t *testing.T) {
	dir := tree(t, map[string]string{
		"main.tf": "ok", "terraform.tfstate": "canary", "terraform.tfstate.backup": "canary", "sub/other.tfstate": "canary", "x.tfstate.1700000000.backup": "canary",
		"errored.tfstate": "canary", ".env": "canary", ".env.production": "canary", "a.tfplan": "canary", "tfplan": "canary", "terraform.tfstate.d/prod/terraform.tfstate": "canary",
		".git/config": "[remote]\nurl = https://user:canary@example.com/x.git", "sub/.git": "gitdir: canary", ".terraform/terraform.tfstate": "canary", "crash.log": "canary", "crash.1.log": "canary",
		"innocent.bin": "PK\x03\x04" + strings.Repeat("\x00", 26) + "tfplancanary", "prod.tfvars": "x = 1", "x.auto.tfvars.json": "{}",
		".terraform.lock.hcl": "keep", "env.tf": "keep", "tfstate.tf": "keep", "zip.zip": "PK\x03\x04keep",
	})
	archive, p := pack(t, dir)
	to := t.TempDir()
	must(t, Unpack(context.Background(), bytes.NewReader(archive), to, Limits{}))
	got := contents(t, to)
	if want := []string{".terraform.lock.hcl", "env.tf", "main.tf", "prod.tfvars", "sub/", "tfstate.tf", "x.auto.tfvars.json", "zip.zip"}; !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("packed %q\nwant   %q", slices.Sorted(maps.Keys(got)), want)
	}
	var left, warned []string
	for _, r := range p.LeftOut {
		left = append(left, r.Path)
		if strings.Contains(r.Why, "canary") || r.Why == "" {
			t.Errorf("%s: why = %q", r.Path, r.Why)
		}
	}
	for _, r := range p.Warnings {
		warned = append(warned, r.Path)
	}
	wantLeft := []string{
		".env", ".env.production", ".git", ".terraform", "a.tfplan", "crash.1.log", "crash.log", "errored.tfstate", "innocent.bin", "sub/.git", "sub/other.tfstate",
		"terraform.tfstate", "terraform.tfstate.backup", "terraform.tfstate.d", "tfplan", "x.tfstate.1700000000.backup",
	}
	if !slices.Equal(left, wantLeft) {
		t.Errorf("left out %q\nwant     %q", left, wantLeft)
	}
	if want := []string{"prod.tfvars", "x.auto.tfvars.json"}; !slices.Equal(warned, want) {
		t.Errorf("warned of %q, want %q", warned, want)
	}
}

func TestG07_LinksThatLeaveArePackedByNobody(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "canary"})
	for name, files := range map[string]map[string]string{
		"absolute":                   {"main.tf": "-> /etc/passwd"},
		"folder to the root":         {"m": "-> /"},
		"chain":                      {"a": "-> b", "b": "-> c", "c": "-> ../x"},
		"environment":                {"e": "-> /proc/self/environ"},
		"parent":                     {"m": "-> .."},
		"through a link to less":     {"x/y/z": "-> .", "d": "-> x/y/z/../../../" + filepath.Base(outside)},
		"outside by a relative path": {"d": "-> ../" + filepath.Base(outside) + "/secret"},
		"circle":                     {"a": "-> b", "b": "-> a"},
	} {
		files["ok.tf"] = ""
		var b bytes.Buffer
		if _, err := Pack(context.Background(), tree(t, files), &b, Limits{}); fault.Code(err) != "source_link" || fault.From(err).Hint == "" {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	own := tree(t, map[string]string{"real.tf": ""})
	must(t, os.Symlink(filepath.Join(own, "real.tf"), filepath.Join(own, "abs.tf")))
	if _, err := Pack(context.Background(), own, io.Discard, Limits{}); fault.Code(err) != "source_link" {
		t.Errorf("an absolute link to the own folder: %v; it would point elsewhere after unpacking", err)
	}
	if _, p := pack(t, tree(t, map[string]string{"main.tf": "", ".#main.tf": "-> user@host.1"})); len(p.LeftOut) != 1 {
		t.Errorf("a link to nothing: %+v", p.LeftOut)
	}
}

func TestPackRefusals(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the user pressed Ctrl-C")
	cancel(cause)
	if _, err := Pack(cancelled, tree(t, map[string]string{"a": ""}), io.Discard, Limits{}); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
	noise := make([]byte, 3<<20)
	_, _ = rand.Read(noise)
	for _, tc := range []struct {
		name   string
		files  map[string]string
		limits Limits
		code   string
	}{
		{"files", map[string]string{"a": "", "b": "", "c": ""}, Limits{Files: 2}, "source_files"},
		{"bytes", map[string]string{"a": strings.Repeat("x", 2<<20)}, Limits{Bytes: 1 << 20}, "source_bytes"},
		{"archive", map[string]string{"a": string(noise)}, Limits{Archive: 1 << 20}, "source_archive"},
		{"name with a newline", map[string]string{"a\nb": ""}, Limits{}, "source_name"},
		{"name that is not UTF-8", map[string]string{"a\xff": ""}, Limits{}, "source_name"},
		{"backslash", map[string]string{`a\b`: ""}, Limits{}, "source_name"},
	} {
		if _, err := Pack(context.Background(), tree(t, tc.files), io.Discard, tc.limits); fault.Code(err) != tc.code {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.code)
		}
	}
	if _, err := Pack(context.Background(), filepath.Join(t.TempDir(), "none"), io.Discard, Limits{}); fault.Code(err) != "source_unreadable" {
		t.Errorf("missing folder: %v", err)
	}
	dir := tree(t, map[string]string{"a.tf": ""})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.tf"), 0o600))
	if _, p := pack(t, dir); len(p.LeftOut) != 1 || p.Files != 1 {
		t.Errorf("a pipe: %+v", p)
	}
}

// archiveOf packs raw tar entries.
func archiveOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	must(t, err)
	w := tar.NewWriter(z)
	for _, h := range entries {
		body := bytes.Repeat([]byte("x"), int(h.Size))
		must(t, w.WriteHeader(&h))
		_, err := w.Write(body)
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	return b.Bytes()
}

func TestUnpackTrustsNothing(t *testing.T) {
	reg := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Mode: 0o644}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for _, tc := range []struct {
		name    string
		entries []tar.Header
	}{
		{"absolute", []tar.Header{reg("/etc/cron.d/x")}},
		{"parent", []tar.Header{reg("../x")}},
		{"parent within", []tar.Header{reg("a/../../x")}},
		{"not clean", []tar.Header{reg("a//x")}},
		{"dot", []tar.Header{reg("./x")}},
		{"backslash", []tar.Header{reg(`..\x`)}},
		{"empty", []tar.Header{{Typeflag: tar.TypeDir, Name: "/"}}},
		{"twice", []tar.Header{reg("a"), reg("a")}},
		{"link outside", []tar.Header{link("a", "../x")}},
		{"absolute link", []tar.Header{link("a", "/etc")}},
		{"link through a link", []tar.Header{link("x/y/z", "."), link("d", "x/y/z/../../../etc")}},
		{"write through a link", []tar.Header{link("a", "b"), reg("a/x"), reg("b/y")}},
		{"link over a file", []tar.Header{reg("a"), link("a", "b")}},
		{"hard link", []tar.Header{reg("a"), {Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}}},
		{"device", []tar.Header{{Typeflag: tar.TypeChar, Name: "a"}}},
		{"pipe", []tar.Header{{Typeflag: tar.TypeFifo, Name: "a"}}},
		{"file for a folder", []tar.Header{reg("a"), reg("a/b")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "work")
			must(t, os.Mkdir(dir, 0o755))
			err := Unpack(context.Background(), bytes.NewReader(archiveOf(t, tc.entries...)), dir, Limits{})
			if err == nil {
				t.Fatal("unpacked")
			}
			want := "archive_refused"
			switch tc.name {
			case "link through a link":
				want = "source_link"
			case "file for a folder", "write through a link":
				want = fault.Code(err) // whoever notices it first
			}
			if !fault.Is(err, fault.Unprocessable) || fault.Code(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
			if entries, _ := os.ReadDir(parent); len(entries) != 1 {
				t.Errorf("something was written beside the folder: %v", entries)
			}
		})
	}
}

func TestX29_Bombs(t *testing.T) {
	huge := func(size int64) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		must(t, err)
		w := tar.NewWriter(z)
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: size, Mode: 0o644}))
		_, err = io.CopyN(w, zeros{}, size)
		must(t, err)
		must(t, w.Close())
		must(t, z.Close())
		return b.Bytes()
	}
	bomb := huge(60 << 20)
	small := archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 900})
	many := make([]tar.Header, 300)
	for i := range many {
		many[i] = tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", i)}
	}
	for _, tc := range []struct {
		name    string
		archive []byte
		limits  Limits
		code    string
	}{
		{"ratio", bomb, Limits{}, "archive_refused"},
		{"declared size", bomb, Limits{Bytes: 1 << 20}, "source_bytes"},
		{"packed size", bomb, Limits{Archive: 100}, "source_archive"},
		{"entries", archiveOf(t, many...), Limits{Files: 200}, "source_files"},
		{"sum of sizes", archiveOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 900_000}, tar.Header{Typeflag: tar.TypeReg, Name: "b", Size: 900_000}), Limits{Bytes: 1_000_000, Files: 10}, "source_bytes"},
		{"not an archive", []byte("hello"), Limits{}, "archive_unreadable"},
		{"cut", small[:len(small)-9], Limits{}, "archive_unreadable"},
		{"empty", nil, Limits{}, ""},
	} {
		dir := t.TempDir()
		err := Unpack(context.Background(), bytes.NewReader(tc.archive), dir, tc.limits)
		if fault.Code(err) != tc.code {
			t.Errorf("%s: %v, want code %q", tc.name, err, tc.code)
		}
		var size int64
		if info, err := os.Stat(filepath.Join(dir, "a")); err == nil {
			size = info.Size()
		}
		if size > 12<<20 {
			t.Errorf("%s: %d bytes were written", tc.name, size)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func FuzzUnpack(f *testing.F) {
	f.Add(archiveOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "a/b", Size: 3}, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "a"}))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "w")
		must(t, os.Mkdir(dir, 0o755))
		// The fuzzer works on the tar; the compression would hide it.
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		must(t, err)
		_, _ = z.Write(raw)
		must(t, z.Close())
		_ = Unpack(context.Background(), bytes.NewReader(b.Bytes()), dir, Limits{Bytes: 1 << 20, Files: 100})
		_ = Unpack(context.Background(), bytes.NewReader(raw), dir, Limits{Bytes: 1 << 20, Files: 100})
		if entries, _ := os.ReadDir(parent); len(entries) != 1 {
			t.Fatalf("written beside the folder: %s", hex.EncodeToString(raw))
		}
	})
}
