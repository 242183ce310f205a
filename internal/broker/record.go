package broker

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/redact"
)

// The files of an attempt in the broker's own directory.
const (
	recordFile  = "record.sealed"
	logFile     = "log"
	spoolFile   = "state"
	plannedFile = "planned.json"
	reportFile  = "report.json"
)

// record is what a broker needs to finish an attempt that an earlier life of it has begun.
type record struct {
	Work     api.Work  `json:"work"` // with the attempt's token
	Password string    `json:"password"`
	Accepted time.Time `json:"accepted"`
}

// newPassword makes the password of one attempt: 256 random bits.
func newPassword() redact.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24: the process ends instead
	return redact.NewSecret(base64.RawURLEncoding.EncodeToString(b[:]))
}

// sealer seals records under a key that is made of the agent's token: who has the disk but not the token reads nothing.
type sealer struct{ aead cipher.AEAD }

func newSealer(token redact.Secret) (sealer, error) {
	key, err := hkdf.Key(sha256.New, []byte(token.Reveal()), nil, "holdfast agent attempt record v1", 32)
	if err != nil {
		return sealer{}, fmt.Errorf("make the key of attempt records: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("make the key of attempt records: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sealer{}, fmt.Errorf("make the key of attempt records: %w", err)
	}
	return sealer{aead}, nil
}

// write seals a record into dir.
func (s sealer) write(dir string, r record) error {
	plain, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write an attempt's record: %w", err)
	}
	return replace(filepath.Join(dir, recordFile), s.aead.Seal(nil, nil, plain, []byte(r.Work.Attempt)))
}

// read opens the record in dir, which must be attempt's.
func (s sealer) read(dir, attempt string) (r record, err error) {
	sealed, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, fmt.Errorf("read an attempt's record: %w", err)
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(attempt))
	if err != nil {
		return r, errors.New("open an attempt's record: it was sealed under another agent token, or is damaged")
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, fmt.Errorf("read an attempt's record: %w", err)
	}
	return r, nil
}

// replace writes a file so that it is there whole or not at all, also after a crash of the machine.
func replace(path string, text []byte) error {
	if err := put(path, text); err != nil {
		return err
	}
	return settle(path)
}

// put writes a file so that it is there whole or not at all, should this process die. settle makes it outlast the
// machine, which takes the disk some milliseconds.
func put(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func settle(path string) error {
	f, err := os.Open(path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeJSON is put; see there.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return put(path, b)
}

// readJSON reports whether there is such a file.
func readJSON(path string, v any) (bool, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return true, nil
}
