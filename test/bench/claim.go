package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/source"
	"holdfast.dev/holdfast/test/load"
)

const (
	pollers    = 100
	tasks      = 300
	offerWait  = 20 * time.Second // until one of the agents has the task
	claimWait  = 30               // seconds; the protocol's own
	claimStack = "claimed"
	account    = "local"
)

// poller is an agent that asks for work and does none.
type poller struct {
	url, token string
	http       *http.Client
}

// offered is a task that one of them was offered.
type offered struct {
	at    time.Time
	by    *poller
	offer api.Offer
}

// claim measures how long a task waits for an agent: from the request that starts its run until the offer has
// arrived at one of the agents that poll for it.
func claim(ctx context.Context, b *bench, d database) error {
	return b.serve(ctx, d, "claim", func(p *load.Process) error {
		server, err := newClient(p.Server)
		if err != nil {
			return err
		}
		start, err := startable(ctx, server, filepath.Join(b.dir, string(d.name)+"-claim"))
		if err != nil {
			return err
		}
		polling, stop := context.WithCancel(ctx)
		defer stop()
		agents, ctx := errgroup.WithContext(polling)
		offers := make(chan offered)
		for i := range pollers {
			a, err := newPoller(ctx, server, p.Server, fmt.Sprintf("poller-%d", i))
			if err != nil {
				return err
			}
			agents.Go(func() error { return a.poll(ctx, offers) })
		}
		var took []float64
		for range tasks {
			t, err := claimOnce(ctx, server, start, offers)
			if err != nil {
				stop()
				return errors.Join(err, agents.Wait())
			}
			took = append(took, milliseconds(t))
		}
		stop()
		b.table.set("claim-50", d.name, median(took))
		b.table.set("claim-99", d.name, quantile(took, 0.99))
		return agents.Wait()
	})
}

func newClient(s load.Server) (*client.Client, error) {
	return client.New(client.Config{Address: s.URL, Token: redact.NewSecret(s.Token), UserAgent: "bench"})
}

// startable makes everything a run needs.
func startable(ctx context.Context, server *client.Client, dir string) (api.StartRun, error) {
	module := filepath.Join(dir, "module")
	if err := writeModule(module); err != nil {
		return api.StartRun{}, err
	}
	var archive bytes.Buffer
	if _, err := source.Pack(ctx, module, &archive, source.Limits{}); err != nil {
		return api.StartRun{}, err
	}
	if _, err := server.AddAccount(ctx, api.AddAccount{Name: account}); err != nil {
		return api.StartRun{}, err
	}
	stored, err := server.UploadSource(ctx, int64(archive.Len()), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return api.StartRun{}, err
	}
	_, err = server.PutStack(ctx, claimStack, api.PutStack{Account: account})
	return api.StartRun{Components: []api.StartComponent{{Name: "main", Source: stored.ID, Inputs: json.RawMessage(`{"n": 1}`)}}}, err
}

// claimOnce starts a run, waits until somebody was offered its task, and ends it.
func claimOnce(ctx context.Context, server *client.Client, start api.StartRun, offers <-chan offered) (time.Duration, error) {
	begun := time.Now()
	if _, err := server.StartRun(ctx, claimStack, start); err != nil {
		return 0, err
	}
	late := time.NewTimer(offerWait)
	defer late.Stop()
	select {
	case o := <-offers:
		return o.at.Sub(begun), o.fail(ctx)
	case <-late.C:
		return 0, fmt.Errorf("no agent was offered the task within %s", offerWait)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func newPoller(ctx context.Context, server *client.Client, s load.Server, name string) (*poller, error) {
	issued, err := server.IssueAgent(ctx, api.IssueAgent{Name: name, AccountID: account})
	if err != nil {
		return nil, err
	}
	a := &poller{url: s.URL + "/api/agent/v1/", token: issued.Token, http: &http.Client{Transport: &http.Transport{}}}
	_, err = a.call(ctx, "register", api.Register{Version: "0.1.0", Capabilities: []string{"executor:process"}}, nil)
	return a, err
}

func (a *poller) poll(ctx context.Context, offers chan<- offered) error {
	defer a.http.CloseIdleConnections()
	for {
		o := offered{by: a}
		status, err := a.call(ctx, "claim", api.Claim{Capabilities: []string{"executor:process"}, WaitSeconds: claimWait}, &o.offer)
		o.at = time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case status == http.StatusNoContent:
			continue
		}
		select {
		case offers <- o:
		case <-ctx.Done():
			return nil
		}
	}
}

// fail takes the task and reports at once that nothing came of it, so that the run is over.
func (o offered) fail(ctx context.Context) error {
	path := "tasks/" + o.offer.Task + "/"
	if _, err := o.by.call(ctx, path+"accept", api.Accept{Attempt: o.offer.Attempt}, nil); err != nil {
		return err
	}
	report := api.Report{Attempt: o.offer.Attempt, Outcome: "failed", Class: "configuration", Message: "Measured."}
	_, err := o.by.call(ctx, path+"report", report, nil)
	return err
}

func (a *poller) call(ctx context.Context, path string, in, out any) (status int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, fmt.Errorf("POST %s = %d %.300s", path, resp.StatusCode, answer)
	}
	if out != nil && len(answer) > 0 {
		err = json.Unmarshal(answer, out)
	}
	return resp.StatusCode, err
}

// module is as little as a plan, an update and an output can be made of.
const module = `variable "n" {
  type = number
}

resource "terraform_data" "measured" {
  input = var.n
}

output "n" {
  value = terraform_data.measured.output
}
`

func writeModule(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module), 0o600)
}
