package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"holdfast.dev/holdfast/examples"
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/stack"
)

// sampleStack is not named hello, so that the example itself can be tried beside it.
const sampleStack = "sample"

// samples makes something to look at in a fresh installation: a run that is applied, and one after it that waits for
// an approval. A repeat, also after an end in between, goes on where the first one stopped.
func (d *dev) samples(ctx context.Context, server *client.Client) error {
	folder := filepath.Join(d.dir, "examples", "hello")
	if _, err := os.Stat(folder); os.IsNotExist(err) {
		if err := os.CopyFS(folder, examples.Hello()); err != nil {
			return fmt.Errorf("write the example: %w", err)
		}
	}
	archive, err := d.packSource(ctx, folder)
	if err != nil {
		return err
	}
	if _, err := server.PutStack(ctx, sampleStack, api.PutStack{Account: devName}); err != nil {
		return err
	}
	first, err := d.sample(ctx, server, archive, "sample-1", "", nil)
	if err != nil {
		return err
	}
	if err := untilEnded(ctx, server, first.ID); err != nil {
		return err
	}
	_, err = d.sample(ctx, server, archive, "sample-2", "always", json.RawMessage(`{"greeting":"good morning"}`))
	return err
}

// sample starts one of the runs, or finds it.
func (d *dev) sample(ctx context.Context, server *client.Client, archive []byte, key, approval string, inputs json.RawMessage) (api.Run, error) {
	stored, err := uploadSource(ctx, server, archive)
	if err != nil {
		return api.Run{}, err
	}
	return server.StartRun(ctx, sampleStack, api.StartRun{
		Approval: approval, Key: key, Components: []api.StartComponent{{Name: stack.Main, Source: stored.ID, Inputs: inputs}},
	})
}

func untilEnded(ctx context.Context, server *client.Client, id string) error {
	for n, err := range server.WatchRun(ctx, id, 0) {
		if err != nil {
			return err
		}
		if !n.Changed {
			continue
		}
		if r, err := server.Run(ctx, id); err != nil || r.EndedAt != nil {
			return err
		}
	}
	return nil
}
