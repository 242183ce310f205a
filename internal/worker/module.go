package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"holdfast.dev/holdfast/internal/link"
	"holdfast.dev/holdfast/internal/source"
)

// unpack checks the packed source's digest and unpacks it into the module's directory.
func (a *attempt) unpack(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(a.dir, link.SourceArchive), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open the packed source: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("hash the packed source: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != a.SourceSHA256 {
		return fmt.Errorf("its SHA-256 is %.12s…, the run was started with %.12s…", got, a.SourceSHA256)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the packed source: %w", err)
	}
	return source.Unpack(ctx, f, a.module, source.Limits{Archive: a.SourceMaxBytes})
}

func (a *attempt) checkModules() error { return errors.Join() }
