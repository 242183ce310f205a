package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/test/load"
)

// database is where servers keep their rows: for SQLite a file each, for PostgreSQL a database each in one server
// that is started for this run.
type database struct {
	name   engineName
	server *pgtest.Server
	main   int // process id of PostgreSQL's postmaster; 0 for SQLite
}

func openDatabase(ctx context.Context, e engineName) (database, error) {
	d := database{name: e}
	if e == onSQLite {
		return d, nil
	}
	var err error
	if d.server, err = pgtest.Start(ctx); err != nil {
		return d, err
	}
	var pid string
	err = d.ask(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)`).Scan(&pid)
	})
	if err == nil {
		d.main, err = strconv.Atoi(pid)
	}
	if err != nil {
		return d, errors.Join(fmt.Errorf("find PostgreSQL's process: %w", err), d.close())
	}
	return d, nil
}

func (d database) close() error {
	if d.server == nil {
		return nil
	}
	return d.server.Stop()
}

func (d database) ask(ctx context.Context, f func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, d.server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	return f(c)
}

// serve starts a server on an empty database, and stops it after f.
func (b *bench) serve(ctx context.Context, d database, name string, f func(*load.Process) error) (err error) {
	dir := filepath.Join(b.dir, string(d.name)+"-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	at := ""
	if d.server != nil {
		made := "bench_" + strings.ReplaceAll(name, "-", "_") // no quotes needed
		if err := d.ask(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, "CREATE DATABASE "+made)
			return err
		}); err != nil {
			return err
		}
		u, err := url.Parse(d.server.URL)
		if err != nil {
			return err
		}
		u.Path = "/" + made
		at = u.String()
	}
	// As servers run by default, its log included.
	p, err := load.Start(ctx, filepath.Join(b.bin, "holdfast"), dir, at, filepath.Join(dir, "server.log"), "HOLDFAST_LOG_LEVEL=info")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return f(p)
}

// cpu is what the server and the database's processes have used.
func (d database) cpu(server int) (time.Duration, error) {
	used, err := load.CPU(server)
	if err != nil || d.main == 0 {
		return used, err
	}
	all, err := descendants(d.main)
	if err != nil {
		return 0, err
	}
	for _, pid := range append(all, d.main) {
		t, err := load.CPU(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		used += t
	}
	return used, nil
}

// descendants are the processes that a process has started, and theirs.
func descendants(pid int) ([]int, error) {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path) //nolint:gosec // of /proc
		if err != nil {
			continue // it has ended
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		// The name, in parentheses, may have spaces; after it stand state and parent.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		children[parent] = append(children[parent], child)
	}
	var all []int
	for next := children[pid]; len(next) > 0; {
		all = append(all, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return all, nil
}
