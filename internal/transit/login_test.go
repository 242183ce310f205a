package transit_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/testkit/baotest"
	"holdfast.dev/holdfast/internal/transit"
)

// clock is moved by tests.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// withLogins is a server with one AppRole and one Kubernetes role, and logins that live for a minute.
func withLogins(t *testing.T, c *clock) *baotest.Server {
	t.Helper()
	s := baotest.New(t)
	s.Do(func(s *baotest.Server) {
		s.Now, s.Lease = c.now, time.Minute
		s.RoleID, s.SecretID, s.Role, s.JWT = "role-1", "secret-1", "holdfast", "jwt-1"
	})
	return s
}

func appRole(t *testing.T) (transit.Auth, string) {
	t.Helper()
	secret := write(t, "secret-1")
	return transit.Auth{Method: transit.AuthAppRole, RoleIDFile: write(t, "role-1"), SecretIDFile: secret}, secret
}

func TestLogins(t *testing.T) {
	c := &clock{}
	s := withLogins(t, c)
	role, _ := appRole(t)
	for name, auth := range map[string]transit.Auth{
		"approle":    role,
		"kubernetes": {Method: transit.AuthKubernetes, Role: "holdfast", JWTFile: write(t, "jwt-1")},
	} {
		client := open(t, s, func(o *transit.Options) { o.Auth, o.Now = auth, c.now })
		before := s.Asked("/login")
		var saves sync.WaitGroup
		for range 8 {
			saves.Go(func() {
				if _, _, err := client.Wrap(t.Context(), "org_1", "wri_1", dataKey); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		saves.Wait()
		if n := s.Asked("/login") - before; n != 1 {
			t.Errorf("%s: 8 saves at once made %d logins, want 1", name, n)
		}
	}
	elsewhere := role
	elsewhere.Mount = "other"
	wrong := role
	wrong.SecretIDFile = write(t, "secret-2")
	gone := role
	gone.RoleIDFile = "/nonexistent/role"
	for name, want := range map[string]struct {
		auth transit.Auth
		code string
	}{
		"a wrong secret id": {wrong, "key_service_refused"},
		"another mount":     {elsewhere, "key_service_refused"},
		"a file that went":  {gone, "key_service_login"},
	} {
		_, _, err := open(t, s, func(o *transit.Options) { o.Auth, o.Now = want.auth, c.now }).Wrap(t.Context(), "org_1", "wri_1", dataKey)
		if fault.Code(err) != want.code || !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "secret-2") {
			t.Errorf("%s: %v, want %s without the secret", name, err, want.code)
		}
	}
}

// A login is renewed before it ends, and where the service gives no more time, made anew.
func TestLoginIsRenewed(t *testing.T) {
	c := &clock{}
	s := withLogins(t, c)
	auth, secret := appRole(t)
	client := open(t, s, func(o *transit.Options) { o.Auth, o.Now = auth, c.now })
	wrap(t, client, "org_1", "wri_1")
	c.advance(39 * time.Second)
	client.Keep(t)
	if n := s.Asked("renew-self"); n != 0 {
		t.Errorf("renewed %d times with a third of its time left, want 0", n)
	}
	for _, later := range []time.Duration{2, 41, 41, 41, 41} {
		c.advance(later * time.Second)
		client.Keep(t)
		wrap(t, client, "org_1", "wri_1")
	}
	if logins, renewals := s.Asked("/login"), s.Asked("renew-self"); logins != 1 || renewals != 5 {
		t.Errorf("%d logins and %d renewals in three and a half minutes, want 1 and 5", logins, renewals)
	}
	s.Do(func(s *baotest.Server) {
		for _, l := range s.Tokens {
			l.Renewable = false
		}
	})
	before := s.Asked("/login")
	c.advance(41 * time.Second)
	client.Keep(t)
	if n := s.Asked("/login") - before; n != 1 {
		t.Errorf("a token that cannot be renewed led to %d logins before it ended, want 1", n)
	}
	// A new secret id is read at the next login, without a restart.
	if err := os.WriteFile(secret, []byte("secret-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Do(func(s *baotest.Server) { s.SecretID = "secret-2" })
	c.advance(2 * time.Minute)
	wrap(t, client, "org_1", "wri_1")
}

// A token that ends in the middle, by the service's clock or somebody's revocation, costs one save one more request.
func TestTokenThatEndsInTheMiddle(t *testing.T) {
	c := &clock{}
	s := withLogins(t, c)
	auth, _ := appRole(t)
	client := open(t, s, func(o *transit.Options) { o.Auth, o.Now = auth, c.now })
	wrap(t, client, "org_1", "wri_1")
	c.advance(20 * time.Second)
	revoke := func() { s.Do(func(s *baotest.Server) { s.Tokens = map[string]*baotest.Lease{} }) }
	revoke()
	wrap(t, client, "org_1", "wri_2")
	if n := s.Asked("/login"); n != 2 {
		t.Errorf("%d logins, want 2", n)
	}
	// A login whose tokens are refused at once is not tried with every save.
	s.Do(func(s *baotest.Server) { s.Refuse = true })
	for range 5 {
		if _, _, err := client.Wrap(t.Context(), "org_1", "wri_3", dataKey); fault.Code(err) != "key_service_refused" {
			t.Errorf("refused: %v", err)
		}
	}
	if n := s.Asked("/login"); n != 2 {
		t.Errorf("%d logins after refusals, want none more than 2", n)
	}
}

// A token's file is read again when it changes, at the latest when the old token is refused.
func TestTokenFileThatChanges(t *testing.T) {
	s := baotest.New(t)
	path := write(t, baotest.Token)
	client := open(t, s, func(o *transit.Options) { o.Auth.TokenFile = path })
	wrap(t, client, "org_1", "wri_1")
	s.Do(func(s *baotest.Server) { s.Tokens = map[string]*baotest.Lease{"s.another": {}} })
	if _, _, err := client.Wrap(t.Context(), "org_1", "wri_1", dataKey); fault.Code(err) != "key_service_refused" || strings.Contains(err.Error(), baotest.Token) {
		t.Errorf("with the old token: %v, want key_service_refused without the token", err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, []byte("s.another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	wrap(t, client, "org_1", "wri_1")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wrap(t, client, "org_1", "wri_1") // a file that is being replaced may be away for a moment
}

// A token of a file is renewed too, and where it cannot be, the log says so once in a while.
func TestTokenOfAFileIsRenewed(t *testing.T) {
	c := &clock{}
	s := baotest.New(t)
	s.Do(func(s *baotest.Server) {
		s.Now, s.Lease = c.now, time.Minute
		s.Tokens[baotest.Token] = &baotest.Lease{Until: c.now().Add(time.Minute), Renewable: true}
	})
	var log bytes.Buffer
	client := open(t, s, func(o *transit.Options) { o.Now, o.Log = c.now, slog.New(slog.NewTextHandler(&log, nil)) })
	wrap(t, client, "org_1", "wri_1")
	for range 5 {
		c.advance(45 * time.Second)
		client.Keep(t)
		wrap(t, client, "org_1", "wri_1")
	}
	if log.Len() != 0 {
		t.Errorf("log: %s", log.String())
	}
	s.Do(func(s *baotest.Server) { s.Tokens[baotest.Token].Renewable = false })
	c.advance(45 * time.Second)
	for range 3 {
		client.Keep(t)
	}
	if n := strings.Count(log.String(), "could not be renewed"); n != 1 || strings.Contains(log.String(), baotest.Token) {
		t.Errorf("a token that ends is told of %d times, want once, without the token: %s", n, log.String())
	}
}
