// transitd serves the Transit engine of Vault 1.14.1, the real one, over HTTP, for tests. It keeps its keys in memory,
// has no authentication and no seal: the tests put a server in front of it that has. It prints its address and ends
// with its standard input.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/framework"
	"github.com/hashicorp/vault/sdk/logical"
)

// mount is where the engine is served.
const mount = "/v1/transit/"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "transitd:", err)
		os.Exit(1)
	}
}

func run() error {
	e, err := newEngine(context.Background())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	fmt.Println(l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// engine is the Transit engine with its storage.
type engine struct {
	backend logical.Backend
	storage logical.Storage
}

func newEngine(ctx context.Context) (*engine, error) {
	storage := &logical.InmemStorage{}
	conf := &logical.BackendConfig{
		Logger: hclog.NewNullLogger(), StorageView: storage, BackendUUID: "transitd",
		System: &logical.StaticSystemView{DefaultLeaseTTLVal: time.Hour, MaxLeaseTTLVal: time.Hour},
	}
	b, err := transit.Backend(ctx, conf)
	if err != nil {
		return nil, err
	}
	// This engine is older than the framework it is built with, which wants the question whether something exists to
	// be answered for every path that can create.
	for _, p := range b.Paths {
		if p.ExistenceCheck == nil {
			p.ExistenceCheck = func(context.Context, *logical.Request, *framework.FieldData) (bool, error) { return true, nil }
		}
	}
	if err := b.Setup(ctx, conf); err != nil {
		return nil, err
	}
	return &engine{backend: b, storage: storage}, nil
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, mount)
	if !ok {
		answer(w, http.StatusNotFound, map[string]any{"errors": []string{"no handler for route"}})
		return
	}
	req := &logical.Request{Path: path, Storage: e.storage, MountPoint: "transit/", ClientToken: r.Header.Get("X-Vault-Token")}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		err = d.Decode(&req.Data)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"errors": []string{err.Error()}})
		return
	}
	resp, err := e.do(r.Context(), r.Method, req)
	respond(w, req, resp, err)
}

func (e *engine) do(ctx context.Context, method string, req *logical.Request) (*logical.Response, error) {
	switch method {
	case http.MethodGet:
		req.Operation = logical.ReadOperation
	case "LIST":
		req.Operation = logical.ListOperation
	case http.MethodDelete:
		req.Operation = logical.DeleteOperation
	default:
		req.Operation = logical.CreateOperation
		known, exists, err := e.backend.HandleExistenceCheck(ctx, req)
		if err != nil {
			return nil, err
		}
		if !known || exists {
			req.Operation = logical.UpdateOperation
		}
	}
	return e.backend.HandleRequest(ctx, req)
}

// respond answers as Vault does.
func respond(w http.ResponseWriter, req *logical.Request, resp *logical.Response, err error) {
	if status, err := logical.RespondErrorCommon(req, resp, err); err != nil || status != 0 {
		text := []string{}
		if err != nil {
			text = append(text, err.Error())
		}
		answer(w, status, map[string]any{"errors": text})
		return
	}
	if resp == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, http.StatusOK, map[string]any{"request_id": "", "data": resp.Data, "warnings": resp.Warnings})
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // a client that went away
}
