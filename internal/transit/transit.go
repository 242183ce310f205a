// Package transit wraps data keys with the Transit engine of an OpenBao or Vault: its keys never leave it, and each
// organization has one of its own, made on first use where the engine lets the login do that.
//
// What is encrypted is the data key followed by the digest of what it is bound to (keyring.Binding). The engine's own
// associated data is not used for that: its rewrap does not take any.
package transit

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/state"
)

// Bounds of one call. A save waits for it while its client does.
const (
	requestTimeout = 5 * time.Second  // of one HTTP request
	callTimeout    = 10 * time.Second // of a call with a login before it
	retryAfter     = 5 * time.Second  // what clients are told when the service is away
)

// DefaultMount is where Transit engines are mounted unless somebody chose otherwise.
const DefaultMount = "transit"

// Options say which engine, and how to log in. Tag, Address, Auth, Log and Now are required.
type Options struct {
	Tag       string // names the service in settings and in the names of keys
	Address   string // https://host:8200
	Mount     string // of the engine; default DefaultMount
	Namespace string
	CAFile    string // PEM; default the system's authorities
	Auth      Auth
	Log       *slog.Logger
	Now       func() time.Time
}

// Client is a key service. It is safe for concurrent use.
type Client struct {
	tag, mount string
	login      *login
	cache      *cache
}

// New makes a client. It reads the CA file and sends nothing.
func New(o Options) (*Client, error) {
	c := api.NewConfig()
	if c.Error != nil {
		return nil, fmt.Errorf("set up the client of the key service %s: %w", o.Tag, c.Error)
	}
	if o.CAFile != "" {
		if err := c.ConfigureTLS(&api.TLSConfig{CACert: o.CAFile}); err != nil {
			return nil, fmt.Errorf("read the authorities in %s: %w", o.CAFile, err)
		}
	}
	// A client of its own for each token, all on the same connections. The library's own way to copy a client would
	// read addresses and tokens from the environment.
	dial := func() (*api.Client, error) {
		client, err := api.NewClient(&api.Config{
			Address: strings.TrimRight(o.Address, "/"), HttpClient: c.HttpClient, Timeout: requestTimeout, Backoff: c.Backoff,
			MaxRetries:         0, // whoever called retries, and knows what it still holds
			DisableEnvironment: true,
		})
		if err == nil && o.Namespace != "" {
			client.SetNamespace(o.Namespace)
		}
		return client, err
	}
	if _, err := dial(); err != nil {
		return nil, fmt.Errorf("set up the client of the key service %s: %w", o.Tag, err)
	}
	out := &Client{tag: o.Tag, mount: or(strings.Trim(o.Mount, "/"), DefaultMount), cache: newCache(o.Now)}
	out.login = newLogin(o.Auth, dial, o.Log.With("key_service", o.Tag), o.Now)
	return out, nil
}

// Run keeps the login alive until ctx ends.
func (c *Client) Run(ctx context.Context) error { return c.login.run(ctx) }

// keyName is the organization's key. Data keys of the installation itself have no organization.
func keyName(org string) string {
	if org == "" {
		org = "installation"
	}
	return "holdfast-" + org
}

// Wrap encrypts key with the organization's key.
func (c *Client) Wrap(ctx context.Context, org, binding string, key []byte) ([]byte, state.Key, error) {
	name, bound := keyName(org), keyring.Binding(org, binding)
	plain := make([]byte, 0, len(key)+len(bound))
	plain = append(append(plain, key...), bound[:]...)
	defer clear(plain)
	data, err := c.call(ctx, "encrypt", name, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(plain)})
	if err != nil {
		return nil, state.Key{}, unavailable(err)
	}
	return c.wrapped(name, data)
}

// unavailable makes a write's errors those of a service that is away: nothing was written, and once somebody has
// put right what is wrong with the key, a repeat works.
func unavailable(err error) error {
	f := fault.From(err)
	if f.Code != "key_missing" {
		return err
	}
	out := fault.Wrap(err, fault.Unavailable, f.Code, "%s", f.Public).WithHint("%s", f.Hint)
	out.RetryAfter = retryAfter
	return out
}

// wrapped reads an answer with a ciphertext, which says its key's version: vault:v3:...
func (c *Client) wrapped(name string, data map[string]any) ([]byte, state.Key, error) {
	text, _ := data["ciphertext"].(string)
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || !strings.HasPrefix(parts[1], "v") {
		return nil, state.Key{}, c.failure(errors.New("its answer has no ciphertext"), name)
	}
	version := parts[1][1:]
	if _, err := strconv.Atoi(version); err != nil {
		return nil, state.Key{}, c.failure(errors.New("its ciphertext has no version"), name)
	}
	return []byte(text), state.Key{Kind: keyring.KindTransit, Name: c.tag + "/" + name, Version: version}, nil
}

// Unwrap decrypts, with the key that by names.
func (c *Client) Unwrap(ctx context.Context, org, binding string, by state.Key, wrapped []byte) ([]byte, error) {
	name, bound := c.nameOf(by), keyring.Binding(org, binding)
	at := placeOf(by.Name, bound, wrapped)
	if key := c.cache.get(at); key != nil {
		return key, nil
	}
	data, err := c.call(ctx, "decrypt", name, map[string]any{"ciphertext": string(wrapped)})
	if err != nil {
		return nil, err
	}
	text, _ := data["plaintext"].(string)
	plain, err := base64.StdEncoding.DecodeString(text)
	defer clear(plain)
	const whole = keyring.KeyBytes + sha256.Size
	if err != nil || len(plain) != whole || subtle.ConstantTimeCompare(plain[keyring.KeyBytes:], bound[:]) != 1 {
		return nil, c.damaged(err, name)
	}
	c.cache.put(at, plain[:keyring.KeyBytes])
	return append([]byte(nil), plain[:keyring.KeyBytes]...), nil
}

// Rewrap has the engine move the ciphertext to its key's latest version; the data key does not leave it.
func (c *Client) Rewrap(ctx context.Context, org, _ string, by state.Key, wrapped []byte) ([]byte, state.Key, error) {
	name := c.nameOf(by)
	if name != keyName(org) {
		return nil, state.Key{}, c.damaged(fmt.Errorf("it names the key %s", by.Name), name)
	}
	data, err := c.call(ctx, "rewrap", name, map[string]any{"ciphertext": string(wrapped)})
	if err != nil {
		return nil, state.Key{}, err
	}
	return c.wrapped(name, data)
}

// nameOf is the key's name in the engine.
func (c *Client) nameOf(by state.Key) string { return strings.TrimPrefix(by.Name, c.tag+"/") }

// Ready is nil when the service is unsealed and knows the login.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, func(ctx context.Context, authed *api.Client) (*api.Secret, error) {
		return authed.Logical().ReadWithContext(ctx, "auth/token/lookup-self")
	})
	if err != nil {
		return c.explain(err, "")
	}
	return nil
}

// call is one operation of the engine on one key.
func (c *Client) call(ctx context.Context, operation, key string, body map[string]any) (map[string]any, error) {
	answer, err := c.do(ctx, func(ctx context.Context, authed *api.Client) (*api.Secret, error) {
		return authed.Logical().WriteWithContext(ctx, c.mount+"/"+operation+"/"+key, body)
	})
	if err != nil {
		return nil, c.explain(err, key)
	}
	return answer.Data, nil
}

// do asks with the login's token, and once more with a new one where the token is refused.
func (c *Client) do(ctx context.Context, ask func(ctx context.Context, authed *api.Client) (*api.Secret, error)) (*api.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := c.login.token(ctx)
	for tries := 0; err == nil; tries++ {
		var answer *api.Secret
		answer, err = ask(ctx, t.client)
		if err == nil && answer == nil {
			err = errors.New("the answer is empty")
		}
		if err == nil {
			return answer, nil
		}
		if tries > 0 || !hasStatus(err, http.StatusForbidden) {
			break
		}
		renewed, again := c.login.replace(ctx, t)
		if again != nil {
			err = again
		}
		if again != nil || renewed == t {
			break
		}
		t, err = renewed, nil
	}
	return nil, err
}

func hasStatus(err error, status int) bool {
	r, ok := errors.AsType[*api.ResponseError](err)
	return ok && r.StatusCode == status
}
