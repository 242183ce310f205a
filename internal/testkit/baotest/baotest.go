// Package baotest gives tests an OpenBao to seal with: the real Transit engine, in a process of its own, behind a
// server that has the logins, the seal and the failures which the engine does not have by itself.
package baotest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/testkit/repo"
)

// Token is what the server takes until a test makes another.
const Token = "s.a-token-of-the-tests"

// Server is an OpenBao as its clients see it. Its fields may be set under Do alone.
type Server struct {
	*httptest.Server

	engine http.Handler
	mu     sync.Mutex

	Sealed    bool
	Hang      bool              // answers nothing until the client gives up
	Refuse    bool              // 403 for every operation of the engine
	Broken    bool              // 500 for every operation of the engine
	NoCreate  bool              // keys are not made on first use
	Namespace string            // that requests have to name
	Tokens    map[string]*Lease // the live ones
	RoleID    string            // of AppRole
	SecretID  string
	Role      string // of Kubernetes
	JWT       string
	Lease     time.Duration // of what logins give; 0: 1 h
	Now       func() time.Time
	Requests  []string // method and path of each, in order
	logins    int
}

// Lease is a token's life.
type Lease struct {
	Until     time.Time // zero: it does not end
	Renewable bool
}

// New starts a server with the token Token. It ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{engine: engine(t), Now: time.Now, Tokens: map[string]*Lease{Token: {}}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Do changes the server between two requests.
func (s *Server) Do(change func(s *Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Asked counts requests whose "METHOD /path" holds part.
func (s *Server) Asked(part string) (n int) {
	s.Do(func(s *Server) {
		for _, r := range s.Requests {
			if strings.Contains(r, part) {
				n++
			}
		}
	})
	return n
}

// Call is an operator's request to the engine, such as PUT transit/keys/NAME/rotate.
func (s *Server) Call(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/v1/"+path, strings.NewReader(string(raw)))
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, r)
	if w.Code >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	var out map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.Requests = append(s.Requests, r.Method+" "+r.URL.Path)
	hang, sealed, elsewhere := s.Hang, s.Sealed, r.Header.Get("X-Vault-Namespace") != s.Namespace
	s.mu.Unlock()
	switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); {
	case hang:
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only once the body is read
		<-r.Context().Done()
	case sealed:
		refuse(w, http.StatusServiceUnavailable, "Vault is sealed")
	case elsewhere:
		refuse(w, http.StatusNotFound, "no handler for route")
	case strings.HasPrefix(path, "auth/") && strings.HasSuffix(path, "/login"):
		s.login(w, r, path)
	case !s.live(r.Header.Get("X-Vault-Token")):
		refuse(w, http.StatusForbidden, "permission denied")
	case path == "auth/token/lookup-self":
		l := s.lease(r.Header.Get("X-Vault-Token"), 0)
		answer(w, map[string]any{"data": map[string]any{"ttl": l.seconds, "renewable": l.renewable}})
	case path == "auth/token/renew-self":
		s.renew(w, r)
	default:
		s.transit(w, r)
	}
}

func (s *Server) login(w http.ResponseWriter, r *http.Request, path string) {
	var in struct {
		RoleID   string `json:"role_id"`
		SecretID string `json:"secret_id"`
		Role     string `json:"role"`
		JWT      string `json:"jwt"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	good := path == "auth/approle/login" && s.RoleID != "" && in.RoleID == s.RoleID && in.SecretID == s.SecretID ||
		path == "auth/kubernetes/login" && s.Role != "" && in.Role == s.Role && in.JWT == s.JWT
	if !good {
		refuse(w, http.StatusBadRequest, "invalid role or secret ID")
		return
	}
	s.logins++
	token, lease := fmt.Sprintf("s.login-%d", s.logins), s.leaseTime()
	s.Tokens[token] = &Lease{Until: s.Now().Add(lease), Renewable: true}
	answer(w, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": int(lease.Seconds()), "renewable": true}})
}

func (s *Server) leaseTime() time.Duration {
	if s.Lease == 0 {
		return time.Hour
	}
	return s.Lease
}

func (s *Server) live(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.Tokens[token]
	return l != nil && (l.Until.IsZero() || s.Now().Before(l.Until))
}

type left struct {
	seconds   int
	renewable bool
}

// lease is what is left of a token's life, after more of it was given.
func (s *Server) lease(token string, more time.Duration) left {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.Tokens[token]
	if l == nil || l.Until.IsZero() {
		return left{}
	}
	if more > 0 {
		l.Until = s.Now().Add(more)
	}
	return left{seconds: int(l.Until.Sub(s.Now()).Seconds()), renewable: l.Renewable}
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Vault-Token")
	if l := s.lease(token, 0); !l.renewable {
		refuse(w, http.StatusBadRequest, "lease is not renewable")
		return
	}
	s.mu.Lock()
	more := s.leaseTime()
	s.mu.Unlock()
	l := s.lease(token, more)
	answer(w, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": l.seconds, "renewable": true}})
}

func (s *Server) transit(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refused, broken, noCreate := s.Refuse, s.Broken, s.NoCreate
	s.mu.Unlock()
	before, name, encrypts := strings.Cut(r.URL.Path, "/encrypt/")
	switch {
	case refused:
		refuse(w, http.StatusForbidden, "permission denied")
	case broken:
		refuse(w, http.StatusInternalServerError, "internal error")
	case encrypts && noCreate && !s.has(r.Context(), before+"/keys/"+name):
		refuse(w, http.StatusForbidden, "permission denied")
	default:
		s.engine.ServeHTTP(w, r)
	}
}

func (s *Server) has(ctx context.Context, path string) bool {
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return w.Code == http.StatusOK
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{text}}) // a client that went away
}

func answer(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // a client that went away
}

// engine starts bin/transitd, which ends with the test.
func engine(t testing.TB) http.Handler {
	t.Helper()
	program, err := repo.Built("transitd", "scripts/transitd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("transitd: %v", err)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("transitd says no address: %v", err)
	}
	return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: strings.TrimSpace(addr)})
}
