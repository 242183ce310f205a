package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// credentials are what login keeps: a token for each server, and which of them is meant without a word.
type credentials struct {
	Current string            `json:"current"` // address
	Servers map[string]string `json:"servers"` // address -> token
}

// credentialsPath is the file in the user's configuration folder.
func (c *call) credentialsPath() (string, error) {
	dir := c.lookup("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // a relative one is to be ignored, says the XDG specification
		home := c.lookup("HOME")
		if home == "" {
			return "", config.Invalid("Neither HOME nor XDG_CONFIG_HOME is set, so there is no place to keep a token.").
				WithHint("Set HOLDFAST_ADDR and HOLDFAST_TOKEN instead.")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "holdfast", "config.json"), nil
}

// credentials reads the file; a missing one is empty. One that others may read is refused: its tokens are known.
func (c *call) credentials() (credentials, error) {
	out := credentials{Servers: map[string]string{}}
	path, err := c.credentialsPath()
	if err != nil {
		return out, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, config.Invalid("The kept tokens cannot be read: %v.", err)
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return out, fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return out, config.Invalid("%s may be read by others (mode %04o).", path, info.Mode().Perm()).
			WithHint("chmod 600 %s; where others use this machine, revoke the tokens and sign in again.", path)
	}
	if err := json.NewDecoder(f).Decode(&out); err != nil {
		return out, config.Invalid("%s is damaged: %v.", path, err).WithHint("Remove it and sign in again.")
	}
	if out.Servers == nil {
		out.Servers = map[string]string{}
	}
	return out, nil
}

func (k credentials) token(addr string) string {
	base, err := client.ParseAddress(addr)
	if err != nil {
		return ""
	}
	return k.Servers[base.String()]
}

// addresses are the servers that a token is kept for.
func (k credentials) addresses() []string {
	out := make([]string, 0, len(k.Servers))
	for a := range k.Servers {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// keep writes the file anew, whole or not at all.
func (c *call) keep(k credentials) (err error) {
	path, err := c.credentialsPath()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fault.Wrap(err, fault.Internal, "token_not_kept", "The token cannot be kept in %s: %v.", path, err).
				WithHint("Set HOLDFAST_ADDR and HOLDFAST_TOKEN instead.")
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(k); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // not there any more after the rename
	if _, err := f.Write(b.Bytes()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// where is the server to call and the token for it: flags, then the environment, then what login kept.
func (c *call) where(addr string) (string, redact.Secret, error) {
	settings, warnings, err := config.LoadClient(c.Environ)
	for _, w := range warnings {
		c.msg.print("%s %s\n", c.msg.yellow("Warning:"), w)
	}
	if err != nil {
		return "", redact.Secret{}, err
	}
	if addr == "" && settings.Addr != nil {
		addr = settings.Addr.String()
	}
	if addr != "" && !settings.Token.IsZero() {
		return addr, settings.Token, nil
	}
	kept, err := c.credentials()
	if err != nil {
		return "", redact.Secret{}, err
	}
	if addr == "" {
		addr = kept.Current
	}
	token := settings.Token
	if token.IsZero() {
		token = redact.NewSecret(kept.token(addr))
	}
	switch {
	case addr == "":
		return "", token, fault.New(fault.Unauthenticated, "not_signed_in", "You are not signed in to any server.").
			WithHint("holdfast login URL, or set HOLDFAST_ADDR and HOLDFAST_TOKEN.")
	case token.IsZero():
		return "", token, fault.New(fault.Unauthenticated, "not_signed_in", "You are not signed in to %s.", addr).
			WithHint("holdfast login %s, or set HOLDFAST_TOKEN.", addr)
	}
	return addr, token, nil
}
