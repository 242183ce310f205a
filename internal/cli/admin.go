package cli

import (
	"context"

	"holdfast.dev/holdfast/internal/api"
)

type adminCmd struct {
	Backup       adminBackupCmd       `cmd:"" help:"Write all that the database holds to one file, while servers run."`
	Restore      adminRestoreCmd      `cmd:"" help:"Store a backup in an empty database."`
	AfterRestore adminAfterRestoreCmd `cmd:"" help:"Make a restored installation ready to serve."`
	ExportState  adminExportCmd       `cmd:"" help:"Decrypt one state of a backup, with the key and no server."`
	Rewrap       adminRewrapCmd       `cmd:"" help:"Move what is stored to the key that seals now."`
}

type adminRewrapCmd struct {
	remote
}

// Help has an example.
func (adminRewrapCmd) Help() string {
	return `After a change of the key (another HOLDFAST_TF_STATE_ENCRYPTION_KEY, a key service instead of it,
a key service's rotation) this moves every state's versions, plans, sources and the audit key to it.
The server keeps serving. It can be ended and begun again at any time; what is moved stays moved.
At the end it lists the keys that are still needed: one that is not listed can be dropped.

For platform administrators. Exit code 1 where something could not be moved.

Example:
  holdfast admin rewrap`
}

// rewrapResult is what the command prints as JSON.
type rewrapResult struct {
	Examined int                 `json:"examined"`
	Moved    int                 `json:"moved"`
	Failed   []api.RewrapFailure `json:"failed"`
	Keys     []api.KeyUse        `json:"keys"`
}

// Run rewraps, step by step.
func (cmd *adminRewrapCmd) Run(ctx context.Context, c *call) error {
	server, err := cmd.connect(c)
	if err != nil {
		return err
	}
	result := rewrapResult{Failed: []api.RewrapFailure{}}
	for after, more := "", true; more; {
		step, err := server.Rewrap(ctx, after)
		if err != nil {
			return err
		}
		result.Examined, result.Moved = result.Examined+step.Examined, result.Moved+step.Moved
		result.Failed = append(result.Failed, step.Failed...)
		if after, more = step.Next, step.Next != ""; more && !c.json {
			c.msg.print("%d looked at, %d moved …\n", result.Examined, result.Moved)
		}
	}
	if result.Keys, err = server.KeyUses(ctx); err != nil {
		return err
	}
	if c.json {
		err = c.printJSON(result)
	} else {
		showRewrapped(c.out, result)
	}
	if err == nil && len(result.Failed) > 0 {
		return ended{exitFailed}
	}
	return err
}

func showRewrapped(s *screen, r rewrapResult) {
	var failed [][]any
	for _, f := range r.Failed {
		failed = append(failed, []any{f.Object, f.Kind, f.Key.Kind + " " + f.Key.Name, f.Detail})
	}
	if len(failed) > 0 {
		s.print("%s %d objects stay as they are:\n\n", s.red("Failed:"), len(failed))
		s.grid([]string{"OBJECT", "KIND", "KEY", "WHY"}, failed)
		s.print("\n")
	}
	s.print("%d of %d objects were moved. Sealed with each key now:\n\n", r.Moved, r.Examined)
	var keys [][]any
	for _, k := range r.Keys {
		keys = append(keys, []any{k.Kind, k.Name, k.Version, k.Objects})
	}
	s.grid([]string{"KIND", "KEY", "VERSION", "OBJECTS"}, keys)
}
