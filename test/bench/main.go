// Command bench measures Holdfast as its own processes and prints one table: what was measured, the goal, and what
// others reach. It needs the three programs, a tofu and a PostgreSQL; `make bench` sees to all of them.
//
// Others' figures and the goals were measured on two cores that server and client share. Wall times move by a third
// with what else the machine does; processor time, memory and syncs hardly do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the program.
type bench struct {
	bin      string // folder of the programs
	tofu     string
	dir      string // everything that is written
	table    *table
	progress io.Writer
}

// part is a group of measurements that share a server.
type part struct {
	name string
	do   func(ctx context.Context, b *bench, on database) error
}

func parts() []part {
	return []part{{"cycles", cycles}, {"large", large}, {"memory", memory}, {"claim", claim}, {"up", up}}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bin := flags.String("bin", "bin", "folder of holdfast, holdfast-agent and holdfast-worker")
	tofu := flags.String("tofu", "tofu", "the tofu that runs are made with")
	only := flags.String("only", "", "parts to measure, separated by commas: cycles, large, memory, claim, up; default all")
	engine := flags.String("database", "", "sqlite or postgres; default both")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{table: newTable(), progress: stderr}
	if b.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if b.tofu, err = exec.LookPath(*tofu); err != nil {
		return fmt.Errorf("-tofu: %w", err)
	}
	if b.tofu, err = filepath.Abs(b.tofu); err != nil { // commands run in other folders
		return err
	}
	if b.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	wanted, err := chosen(*only)
	if err != nil {
		return err
	}
	for _, e := range []engineName{onSQLite, onPostgres} {
		if *engine != "" && *engine != string(e) {
			continue
		}
		if err := b.measure(ctx, e, wanted); err != nil {
			return err
		}
	}
	b.table.print(stdout, fmt.Sprintf("%d cores, shared by server, database and clients", runtime.NumCPU()))
	return nil
}

func chosen(only string) ([]part, error) {
	if only == "" {
		return parts(), nil
	}
	var out []part
	for name := range strings.SplitSeq(only, ",") {
		all := parts()
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no part %q", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// measure takes all parts on one database.
func (b *bench) measure(ctx context.Context, e engineName, wanted []part) (err error) {
	d, err := openDatabase(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, p := range wanted {
		begun := time.Now()
		if err := p.do(ctx, b, d); err != nil {
			return fmt.Errorf("%s on %s: %w", p.name, e, err)
		}
		_, _ = fmt.Fprintf(b.progress, "%-8s on %-8s %6.1f s\n", p.name, e, time.Since(begun).Seconds())
	}
	return nil
}
