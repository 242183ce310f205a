// Package source handles the sources of a component: it packs a folder into an archive and unpacks it safely, reads
// configuration files exactly as the tool reads them, lists what they declare and refuses what would steer the tool
// past a run's rules.
package source

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"holdfast.dev/holdfast/internal/fault"
)

// Limits bound an archive. The zero value of a field means its default.
type Limits struct {
	Files   int   // entries, folders included; 10,000
	Bytes   int64 // of all files together, unpacked; 64 MiB
	Archive int64 // of the archive; 32 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Files == 0 {
		l.Files = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.Archive == 0 {
		l.Archive = 32 << 20
	}
	return l
}

// Packed describes an archive.
type Packed struct {
	Digest   string   `json:"digest"` // "sha256:…" of the archive's bytes
	Files    int      `json:"files"`
	Bytes    int64    `json:"bytes"`   // unpacked
	Archive  int64    `json:"archive"` // size of the archive
	LeftOut  []Remark `json:"left_out"`
	Warnings []Remark `json:"warnings"`
}

// Remark says something about one path.
type Remark struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Pack writes the folder dir to w as a zstd-compressed tar. The same tree gives the same bytes: no times, owners or
// order of the disk are in it, and of modes only whether a file is executable. Left out, and reported, is what belongs to
// a working copy and not to the configuration: the git folder, the tool's own folder, states, plans, environment files,
// crash logs. A link that leaves the folder is refused.
func Pack(ctx context.Context, dir string, w io.Writer, limits Limits) (*Packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "source_unreadable", "The folder %s cannot be read.", dir).WithHint("Check that it is a folder and that you may read it.")
	}
	defer root.Close() //nolint:errcheck // read only

	hash := sha256.New()
	sized := &sizedWriter{to: io.MultiWriter(w, hash), limit: limits.withDefaults().Archive}
	// One goroutine, so that the bytes do not depend on the machine.
	z, err := zstd.NewWriter(sized, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	p := &packer{root: root, tar: tar.NewWriter(z), limits: limits.withDefaults(), packed: &Packed{LeftOut: []Remark{}, Warnings: []Remark{}}}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		return p.entry(name, entry)
	})
	if err == nil {
		err = p.tar.Close()
	}
	err = errors.Join(err, z.Close())
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return nil, f
		}
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	p.packed.Digest, p.packed.Archive = "sha256:"+hex.EncodeToString(hash.Sum(nil)), sized.n
	return p.packed, nil
}

type packer struct {
	root   *os.Root
	tar    *tar.Writer
	limits Limits
	count  int
	packed *Packed
}

func (p *packer) entry(name string, entry fs.DirEntry) error {
	if name == "." {
		return nil
	}
	if why := excluded(path.Base(name)); why != "" {
		p.leaveOut(name, why)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00\r\n") {
		return fault.New(fault.Unprocessable, "source_name", "The file name %.200q cannot be packed.", name).WithHint("Rename it to plain UTF-8 text.")
	}
	if p.count++; p.count > p.limits.Files {
		return tooMany(p.limits.Files)
	}
	switch {
	case entry.IsDir():
		return p.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	case entry.Type() == fs.ModeSymlink:
		return p.link(name)
	case entry.Type().IsRegular():
		return p.file(name)
	}
	p.leaveOut(name, "neither a file, a folder nor a link")
	return nil
}

func (p *packer) header(h *tar.Header) error {
	h.Format, h.ModTime = tar.FormatPAX, time.Unix(0, 0)
	return p.tar.WriteHeader(h)
}

func (p *packer) link(name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return err
	}
	if err := insideLink(p.root, name, target); err != nil {
		return err
	}
	if _, err := p.root.Stat(name); err != nil {
		p.leaveOut(name, "a link to nothing")
		return nil
	}
	return p.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

func (p *packer) file(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if p.packed.Bytes += info.Size(); p.packed.Bytes > p.limits.Bytes {
		return tooLarge(p.limits.Bytes)
	}
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	head = head[:n]
	if savedPlan(head) {
		p.packed.Bytes -= info.Size()
		p.leaveOut(name, "a saved plan, which holds secrets")
		return nil
	}
	if valueFile(path.Base(name)) {
		p.packed.Warnings = append(p.packed.Warnings, Remark{name, "its values are packed as part of the configuration; give secrets as sensitive inputs"})
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := p.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	copied, err := io.Copy(p.tar, io.LimitReader(io.MultiReader(bytes.NewReader(head), f), info.Size()))
	if err == nil && copied < info.Size() {
		err = fault.New(fault.Conflict, "source_changed", "%s changed while it was packed.", name).WithHint("Try again when nothing writes to the folder.")
	}
	p.packed.Files++
	return err
}

func (p *packer) leaveOut(name, why string) {
	p.packed.LeftOut = append(p.packed.LeftOut, Remark{name, why})
}

// excluded says why an entry of that base name is not packed, or "".
func excluded(base string) string {
	switch {
	case base == ".git":
		return "git's folder, which may hold credentials"
	case base == ".terraform" || base == ".holdfast":
		return "a working folder of the tool"
	case base == "errored.tfstate", strings.HasSuffix(base, ".tfstate"), strings.Contains(base, ".tfstate."), strings.HasPrefix(base, "terraform.tfstate"):
		return "a state, which holds secrets"
	case strings.HasSuffix(base, ".tfplan"), base == "tfplan":
		return "a saved plan, which holds secrets"
	case base == ".env", strings.HasPrefix(base, ".env."):
		return "an environment file, which may hold secrets"
	case base == "crash.log", strings.HasPrefix(base, "crash.") && strings.HasSuffix(base, ".log"):
		return "a crash log"
	}
	return ""
}

// savedPlan recognises a plan file under any name by the first member of its zip.
func savedPlan(head []byte) bool {
	const nameAt = 30
	return len(head) > nameAt && bytes.HasPrefix(head, []byte("PK\x03\x04")) && bytes.HasPrefix(head[nameAt:], []byte("tfplan"))
}

func valueFile(base string) bool {
	return strings.HasSuffix(base, ".tfvars") || strings.HasSuffix(base, ".tfvars.json")
}

// insideLink refuses a link that leads out of the folder, by its text or by the links it passes through.
func insideLink(root *os.Root, name, target string) error {
	leaves := fault.New(fault.Unprocessable, "source_link", "The link %s -> %.200s leaves the folder.", name, target).
		WithHint("Replace it by the file it points to, or by a relative link within the folder.")
	if path.IsAbs(target) || strings.ContainsAny(target, "\\\x00") || !local(path.Join(path.Dir(name), target)) {
		return leaves
	}
	if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return leaves // Root reports what leaves it, and what goes round in circles, as errors of its own
	}
	return nil
}

// local reports whether a cleaned slash path stays within.
func local(name string) bool {
	return name != ".." && !strings.HasPrefix(name, "../") && !path.IsAbs(name)
}

func tooMany(limit int) error {
	return fault.New(fault.TooLarge, "source_files", "The folder has more than %d files.", limit).WithHint("Pack the folder of the configuration alone.")
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "source_bytes", "The folder has more than %d MiB.", limit>>20).WithHint("Pack the folder of the configuration alone.")
}

type sizedWriter struct {
	to    io.Writer
	n     int64
	limit int64
}

func (s *sizedWriter) Write(p []byte) (int, error) {
	if s.n += int64(len(p)); s.n > s.limit {
		return 0, fault.New(fault.TooLarge, "source_archive", "The packed folder has more than %d MiB.", s.limit>>20).WithHint("Pack the folder of the configuration alone.")
	}
	return s.to.Write(p)
}
