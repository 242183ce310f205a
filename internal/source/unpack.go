package source

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"holdfast.dev/holdfast/internal/fault"
)

// An archive that grows more than this, once it is large at all, is a bomb: configuration is text.
const (
	maxRatio   = 200
	ratioFloor = 8 << 20
	// maxWindow bounds what the decompressor takes, whatever the archive asks for.
	maxWindow = 16 << 20
)

// Unpack writes an archive that Pack made into the empty folder dir. It trusts nothing in it: nothing is written outside
// dir, nothing that exists is written over, links stay within, only files, folders and links are made, and the limits
// hold while it reads. After an error dir holds a part of the archive; remove it.
func Unpack(ctx context.Context, archive io.Reader, dir string, limits Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack into %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // a handle of a folder
	limits = limits.withDefaults()
	packed := &countingReader{from: archive, limit: limits.Archive}
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(2*maxWindow))
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer z.Close()
	u := &unpacker{root: root, limits: limits, packed: packed}
	if err := u.all(ctx, tar.NewReader(&expandedReader{from: z, u: u})); err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return f
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault.Wrap(err, fault.Unprocessable, "archive_unreadable", "The archive cannot be unpacked.").WithHint("Pack the folder again.")
	}
	return nil
}

type unpacker struct {
	root     *os.Root
	limits   Limits
	packed   *countingReader
	expanded int64
	count    int
	links    []*tar.Header
}

func (u *unpacker) all(ctx context.Context, in *tar.Reader) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return u.makeLinks()
		}
		if err != nil {
			return err
		}
		if u.count++; u.count > u.limits.Files {
			return tooMany(u.limits.Files)
		}
		if err := u.entry(h, in); err != nil {
			return err
		}
	}
}

func (u *unpacker) entry(h *tar.Header, in io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if name == "" || name == "." || path.Clean(name) != name || !local(name) || strings.ContainsAny(name, "\\\x00") {
		return hostile("holds the path %.200q", h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		// Made at the end: no file can then be written through one.
		u.links = append(u.links, h)
		return nil
	case tar.TypeReg:
		return u.file(name, h, in)
	}
	return hostile("holds %.200q, which is neither a file, a folder nor a link", h.Name)
}

func (u *unpacker) file(name string, h *tar.Header, in io.Reader) error {
	if h.Size > u.limits.Bytes {
		return tooLarge(u.limits.Bytes)
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return hostile("holds %.200q twice", name)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

func (u *unpacker) makeLinks() error {
	for _, h := range u.links {
		if path.IsAbs(h.Linkname) || !local(path.Join(path.Dir(h.Name), h.Linkname)) || strings.ContainsAny(h.Linkname, "\\\x00") {
			return hostile("holds the link %.200q, which leaves it", h.Name)
		}
		if err := u.root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
			return err
		}
		if err := u.root.Symlink(h.Linkname, h.Name); err != nil {
			return hostile("holds %.200q twice", h.Name)
		}
	}
	for _, h := range u.links { // through each other they may lead elsewhere than each alone
		if err := insideLink(u.root, h.Name, h.Linkname); err != nil {
			return err
		}
	}
	return nil
}

func hostile(format string, args ...any) error {
	return fault.New(fault.Unprocessable, "archive_refused", "The archive "+format+".", args...).WithHint("Pack the folder with `holdfast up`.")
}

// countingReader counts the packed bytes and stops at the limit.
type countingReader struct {
	from  io.Reader
	n     int64
	limit int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.n += int64(n); c.n > c.limit {
		return 0, fault.New(fault.TooLarge, "source_archive", "The archive has more than %d MiB.", c.limit>>20).WithHint("Pack the folder of the configuration alone.")
	}
	return n, err
}

// expandedReader counts the unpacked bytes and stops where they become too many, or too many for what came in.
type expandedReader struct {
	from io.Reader
	u    *unpacker
}

func (e *expandedReader) Read(p []byte) (int, error) {
	const perEntry = 2048 // headers and padding, about
	n, err := e.from.Read(p)
	e.u.expanded += int64(n)
	if e.u.expanded > e.u.limits.Bytes+perEntry*int64(e.u.limits.Files) {
		return 0, tooLarge(e.u.limits.Bytes)
	}
	if e.u.expanded > ratioFloor && e.u.expanded > maxRatio*e.u.packed.n {
		return 0, hostile("grows more than %d times", maxRatio)
	}
	return n, err
}
