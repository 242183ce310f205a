package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/backup"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

// offline is the flags of commands that ask no server: they work with the database and the keys that the server's own
// settings name.
type offline struct {
	output
}

// admin takes the settings from the environment.
func (offline) admin(ctx context.Context, c *call) (app.Admin, error) {
	settings, warnings, err := config.LoadServer(c.Environ)
	level := settings.LogLevel
	if level == "info" { // the default, which is for servers
		level = "warn"
	}
	log := config.Logger(c.Stderr, level, settings.LogFormat)
	for _, w := range warnings {
		log.WarnContext(ctx, "look at the environment", "warning", w)
	}
	p := &progress{s: c.msg, now: c.Now}
	return app.Admin{Settings: settings, Version: c.Version, Log: log, Now: c.Now, Progress: p.show}, err
}

// progress is a line on a terminal that is written over. Elsewhere it is nothing.
type progress struct {
	s    *screen
	now  func() time.Time
	last time.Time
}

func (p *progress) show(doing string, rows int64) {
	const often = 200 * time.Millisecond
	now := p.now()
	if !p.s.terminal() || now.Sub(p.last) < often {
		return
	}
	if !p.last.IsZero() {
		_, _ = fmt.Fprint(p.s.w, "\x1b[1A\r\x1b[J")
	}
	p.last = now
	p.s.print("%s\n", p.s.dim(fmt.Sprintf("%s: %d rows", doing, rows)))
}

type adminBackupCmd struct {
	offline
	Out   string `name:"output" short:"o" required:"" placeholder:"FILE" help:"Where to write it (mode 0600); - for standard output."`
	Force bool   `help:"Write over a file that is there."`
}

// Help has examples.
func (adminBackupCmd) Help() string {
	return `Writes all organizations, states with their versions, runs, users, tokens' hashes and the audit log as
they are at one moment, from SQLite or PostgreSQL alike, to one file, whole or not at all. Servers may run
meanwhile. Takes HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR as the server has them.

What is sealed stays sealed: keep the key too, and not beside the file. The keys that the file needs are
printed at the end, with the audit anchors: given to holdfast audit verify --anchor after a restore,
they prove that no record was cut off. Who is signed in and one-time links are left out.

Examples:
  holdfast admin backup --output holdfast-$(date +%F).backup
  holdfast admin backup --output - | ssh vault 'cat > holdfast.backup'`
}

// madeBackup is what the command prints as JSON.
type madeBackup struct {
	File string `json:"file"`
	Size int64  `json:"size"`
	backup.Header
	Rows   int64            `json:"rows"`
	Tables map[string]int64 `json:"tables"`
	SHA256 string           `json:"sha256"` // of the content, as the file's end has it
}

func describeBackup(file string, size int64, m app.BackupMade) madeBackup {
	return madeBackup{File: file, Size: size, Header: m.Header, Rows: m.Trailer.Rows(), Tables: m.Trailer.Tables, SHA256: m.Trailer.SHA256}
}

// Run makes a backup.
func (cmd *adminBackupCmd) Run(ctx context.Context, c *call) error {
	if cmd.Out == "-" && (c.out.terminal() || c.json) {
		return fault.New(fault.Invalid, codeUsage, "A backup is no text for a terminal, and standard output cannot take a JSON document too.").
			WithHint("Name a file, or pipe it somewhere without --json.")
	}
	a, err := cmd.admin(ctx, c)
	if err != nil {
		return err
	}
	var made app.BackupMade
	write := func(w io.Writer) (int64, error) {
		n := &counter{w: w}
		made, err = a.Backup(ctx, n)
		return n.n, err
	}
	var size int64
	screen := c.out
	if cmd.Out == "-" {
		screen = c.msg
		size, err = write(c.Stdout)
	} else {
		size, err = storeFile(cmd.Out, cmd.Force, write)
	}
	if err != nil {
		return err
	}
	m := describeBackup(cmd.Out, size, made)
	if c.json {
		return c.printJSON(m)
	}
	showBackup(screen, m)
	return nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func showBackup(s *screen, m madeBackup) {
	s.print("%s %s\n\n", s.green("Backed up:"), m.File)
	s.pairs("backup", m.ID, "taken", moment(&m.CreatedAt), "size", bytesText(m.Size), "rows", fmt.Sprint(m.Rows), "states", fmt.Sprint(m.States))
	showElsewhere(s, m.Elsewhere)
	showKeys(s, m.Keys)
	showAnchors(s, m.Audit)
}

func showElsewhere(s *screen, objects int64) {
	if objects > 0 {
		s.print("\n%s The bytes of %d objects are in the object store (HOLDFAST_BLOB_URL) and not in this file: back it up too.\n", s.yellow("Not in it:"), objects)
	}
}

func showKeys(s *screen, keys []backup.KeyUse) {
	s.print("\n%s\n", s.bold("To read it these keys are needed, which it does not hold:"))
	var rows [][]any
	for _, k := range keys {
		rows = append(rows, []any{k.Kind, k.Name, k.Version, k.Objects})
	}
	s.grid([]string{"KIND", "KEY", "VERSION", "OBJECTS"}, rows)
}

func showAnchors(s *screen, anchors []backup.Anchor) {
	if len(anchors) == 0 {
		return
	}
	s.print("\n%s\n", s.bold("For holdfast audit verify --anchor:"))
	var rows [][]any
	for _, a := range anchors {
		rows = append(rows, []any{a.Organization, a.String()})
	}
	s.grid([]string{"ORGANIZATION", "ANCHOR"}, rows)
}
