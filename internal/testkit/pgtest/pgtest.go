// Package pgtest gives tests a real PostgreSQL: one server for a test binary, an empty database for each test.
//
// With HOLDFAST_TEST_DATABASE_URL (a postgres:// URL of a superuser) the server named there is used instead, which
// is how `make test` shares one between all packages. Where none can be had, tests fail; they never skip.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const urlVariable = "HOLDFAST_TEST_DATABASE_URL"

// statementTimeout bounds the making and dropping of one database.
const statementTimeout = time.Minute

// shared starts the server at first use. Nobody has to stop it: it ends with the test binary. The value is kept
// here because the server also ends when nothing refers to its pipe any more and the collector closes that.
var shared = sync.OnceValues(func() (*Server, error) {
	if named := os.Getenv(urlVariable); named != "" {
		return &Server{URL: named}, nil
	}
	return Start(context.Background())
})

var databases atomic.Int64

// New makes an empty database and returns its postgres:// URL. It is dropped when the test ends, together with
// whatever connection is still open to it.
func New(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// Template is a database that is prepared once, say migrated, and then copied for each test; copying takes a few
// dozen milliseconds. Copy it by pointer only.
type Template struct {
	// Prepare fills the database at url, and has closed its connections to it when it returns.
	Prepare func(ctx context.Context, url string) error

	once sync.Once
	name string
	err  error
}

// New copies the template, and returns the copy's URL. It is dropped when the test ends.
func (p *Template) New(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		p.name = databaseName()
		var made string
		if made, p.err = execute(t.Context(), "CREATE DATABASE "+p.name+" TEMPLATE template0", p.name); p.err == nil {
			p.err = p.Prepare(t.Context(), made)
		}
	})
	if p.err != nil {
		t.Fatalf("prepare the template database: %v", p.err)
	}
	return create(t, p.name)
}

func create(t testing.TB, template string) string {
	t.Helper()
	name := databaseName()
	made, err := execute(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template, name)
	if err != nil {
		t.Fatalf("make a test database: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if _, err := execute(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)", name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return made
}

// databaseName is unique on a server that several test binaries share.
func databaseName() string {
	return fmt.Sprintf("holdfast_test_%d_%d", os.Getpid(), databases.Add(1))
}

// execute runs one statement as the superuser and returns the URL of the database called name.
func execute(ctx context.Context, statement, name string) (string, error) {
	server, err := shared()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return "", fmt.Errorf("%s: %w", statement, err)
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		return "", fmt.Errorf("%s: %w", urlVariable, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}
