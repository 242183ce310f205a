package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast.dev/holdfast/internal/testkit/pgtest"
)

// starterVariable makes this test binary start a server, print its URL, and wait to be killed.
const starterVariable = "PGTEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterVariable) == "" {
		os.Exit(m.Run())
	}
	s, err := pgtest.Start(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // for as long as the test lets it live
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func value(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var v string
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestEachTestHasAnEmptyDatabase(t *testing.T) {
	first, second := connect(t, pgtest.New(t)), connect(t, pgtest.New(t))
	exec1(t, first, "CREATE TABLE a (b TEXT)")
	exec1(t, second, "CREATE TABLE a (b TEXT)")
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	var made string
	t.Run("inner", func(t *testing.T) {
		made = pgtest.New(t)
		// Left open: a forgotten connection must not keep the database.
		if _, err := pgx.Connect(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := pgx.Connect(t.Context(), made); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Fatalf("connect after the test ended: %v; want that the database does not exist", err)
	}
}

func TestTemplateIsPreparedOnceAndCopied(t *testing.T) {
	prepared := 0
	template := &pgtest.Template{Prepare: func(ctx context.Context, url string) error {
		prepared++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE TABLE a AS SELECT 'template' AS b")
		return errors.Join(err, conn.Close(ctx))
	}}
	first, second := connect(t, template.New(t)), connect(t, template.New(t))
	exec1(t, first, "UPDATE a SET b = 'mine'")
	if got := value(t, second, "SELECT b FROM a"); got != "template" {
		t.Errorf("the second copy says %q, want the template's row", got)
	}
	if prepared != 1 {
		t.Errorf("prepared %d times, want once", prepared)
	}
}

// The store is tested for durability, and for an order of names that is by byte whatever the database prefers.
func TestServerIsDurableAndDoesNotSortByByte(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_DATABASE_URL") != "" {
		t.Log("of the server named in HOLDFAST_TEST_DATABASE_URL")
	}
	conn := connect(t, pgtest.New(t))
	if got := value(t, conn, "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %s, want on", got)
	}
	if got := value(t, conn, "SELECT string_agg(x, '' ORDER BY x) FROM (VALUES ('b'), ('B'), ('a')) v(x)"); got == "Bab" {
		t.Error("the default collation sorts by byte, which hides a forgotten COLLATE")
	}
}

func TestServerEndsWithItsKilledStarter(t *testing.T) {
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starterVariable+"=1")
	if _, err := starter.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "postgres://") {
		_ = starter.Process.Kill()
		t.Fatalf("starter says %q, %v; want a URL", line, err)
	}
	server, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.String())
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); ctx.Err() != nil {
		t.Fatalf("the server outlives its killed starter: %v", err)
	}
	gone := time.NewTicker(10 * time.Millisecond)
	defer gone.Stop()
	dir := server.Query().Get("host")
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-gone.C:
		case <-ctx.Done():
			t.Fatalf("%s is left behind", dir)
		}
	}
}
