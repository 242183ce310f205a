package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
)

type auditCmd struct {
	List   auditListCmd   `cmd:"" help:"List audit records, newest first."`
	Verify auditVerifyCmd `cmd:"" help:"Check that no record was changed or removed."`
	Export auditExportCmd `cmd:"" help:"Write all records, one JSON document a line."`
}

type auditListCmd struct {
	remote
	Limit  int    `default:"50" placeholder:"N" help:"Print at most N; 0 for all."`
	Action string `help:"Only this action, e.g. run.approve, or all that begin alike: run."`
	Actor  string `help:"Only what this id did."`
	Object string `help:"Only what was done to this name or id."`
}

// Help has examples.
func (auditListCmd) Help() string {
	return `Examples:
  holdfast audit list
  holdfast audit list --action run.approve --limit 10
  holdfast audit list --object run_01jzv3k9q2c8w4n6m0r5t7x1ab --json`
}

// Run lists audit records.
func (cmd *auditListCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	records, err := client.Collect(client.All(ctx, cmd.Limit, func(ctx context.Context, page client.Page) (api.List[api.AuditRecord], error) {
		return server.Audit(ctx, client.AuditFilter{Action: cmd.Action, Actor: cmd.Actor, Object: cmd.Object}, page)
	}))
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(records)
	}
	showAudit(c.out, records)
	return nil
}

func showAudit(s *screen, records []api.AuditRecord) {
	if len(records) == 0 {
		s.none("audit records")
		return
	}
	var rows [][]any
	for _, r := range records {
		who := r.ActorName
		if who == "" {
			who = r.ActorKind
		}
		var data bytes.Buffer
		if json.Compact(&data, r.Data) != nil || data.String() == "null" {
			data.Reset()
		}
		rows = append(rows, []any{r.Seq, moment(&r.At), who, r.Action, r.Object, data.String()})
	}
	s.grid([]string{"SEQ", "AT", "WHO", "ACTION", "OBJECT", "DATA"}, rows)
}

type auditVerifyCmd struct {
	remote
	Anchor string `placeholder:"SEQ:HASH" help:"What an earlier verify or export printed; proves that the end was not cut."`
}

// Help has examples.
func (auditVerifyCmd) Help() string {
	return `Every record holds the hash of the one before it. Keep the anchor that this prints outside of
Holdfast: given to a later verify, it proves that what was there then is still there.

Examples:
  holdfast audit verify
  holdfast audit verify --anchor 1203:5f0c…`
}

// Run verifies the audit chain. A broken one is exit code 1.
func (cmd *auditVerifyCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	v, err := server.VerifyAudit(ctx, cmd.Anchor)
	if err != nil {
		return err
	}
	if c.json {
		err = c.printJSON(v)
	} else {
		showVerified(c.out, v)
	}
	if err == nil && !v.Intact {
		return ended{exitFailed}
	}
	return err
}

func showVerified(s *screen, v api.AuditVerified) {
	if v.Intact {
		s.print("%s %d records.\n", s.green("Intact:"), v.Records)
	} else {
		s.print("%s at record %d: %s\n", s.red("Broken"), v.BrokenAt, v.Reason)
	}
	if v.Unkeyed > 0 {
		s.print("The first %d are from before the server had any key; they prove nothing.\n", v.Unkeyed)
	}
	s.pairs("anchor", v.Anchor)
}

type auditExportCmd struct {
	Addr string `name:"addr" placeholder:"URL" help:"The server to call; default HOLDFAST_ADDR, else the one signed in to last."`
	Out  string `short:"o" placeholder:"FILE" help:"Write to a file (mode 0600) instead of standard output: all of it or nothing."`
}

// Help has examples.
func (auditExportCmd) Help() string {
	return `Oldest first. The anchor, on standard error, is what a later verify takes: it proves that the chain
still holds what was exported.

Examples:
  holdfast audit export --out audit.ndjson
  holdfast audit export | jq -r .action | sort | uniq -c`
}

// Run exports the audit log.
func (cmd *auditExportCmd) Run(ctx context.Context, c *call) error {
	server, err := remote{Addr: cmd.Addr}.connect(c)
	if err != nil {
		return err
	}
	var last api.AuditRecord
	if cmd.Out == "" {
		last, err = server.ExportAudit(ctx, c.Stdout)
	} else {
		_, err = storeFile(cmd.Out, true, func(w io.Writer) (n int64, err error) {
			last, err = server.ExportAudit(ctx, w)
			return 0, err
		})
	}
	if err != nil {
		return err
	}
	c.msg.print("%d records.\n", last.Seq)
	if last.Seq > 0 {
		c.msg.pairs("anchor", fmt.Sprintf("%d:%s", last.Seq, last.Hash))
	}
	return nil
}
