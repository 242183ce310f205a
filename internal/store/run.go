package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
	"holdfast.dev/holdfast/internal/store/db"
)

// CreateRun also makes the run its stack's newest, and takes its turn among the stack's runs: runs of one stack
// are made one after the other.
func (t *tx) CreateRun(ctx context.Context, r run.Run) error {
	turn, err := t.q.CountRun(ctx, r.ID, r.Stack)
	if err != nil {
		return t.err("creating a run of", "stack", err)
	}
	by, err := encode(r.CreatedBy)
	if err != nil {
		return err
	}
	if err := t.q.CreateRun(ctx, db.CreateRunParams{
		ID: r.ID, Org: r.Org, Stack: r.Stack, Turn: turn, StackName: r.StackName, Account: r.Account, Kind: string(r.Kind),
		Status: string(r.Status), Final: r.Status.Final(), Risk: r.Risk, PlanDigest: r.PlanDigest,
		ApprovalPolicy: string(r.Approval.Policy), ApprovalRequired: r.Approval.Required, ApprovalReason: r.Approval.Reason,
		ApprovalStatus: string(r.Approval.Status), ApprovalDigest: r.Approval.Digest, ApprovalBy: r.Approval.By,
		ApprovalByName: r.Approval.ByName, ApprovalAt: micros(r.Approval.At), Production: r.Production, Hold: r.Hold,
		CreatedBy: by, CreatedAt: micros(r.CreatedAt), EndedAt: micros(r.EndedAt), Class: string(r.Class),
		PartialApply: r.PartialApply, Message: r.Message, CancelAsked: r.CancelAsked, WaitsFor: r.WaitsFor,
		StartKey: r.Key,
	}); err != nil {
		return t.err("creating", "run", err)
	}
	return t.putComponents(ctx, r, nil)
}

func (t *tx) RunByKey(ctx context.Context, stackID, key string) (string, error) {
	id, err := t.q.RunByKey(ctx, stackID, key)
	return id, t.err("looking for", "run", err)
}

func (t *tx) Run(ctx context.Context, org, id string) (run.Run, error) {
	row, err := t.q.Run(ctx, id, org)
	if err != nil {
		return run.Run{}, t.err("reading", "run", err)
	}
	components, err := t.q.Components(ctx, id)
	if err != nil {
		return run.Run{}, t.err("reading the components of", "run", err)
	}
	return runOf(row, components)
}

func (t *tx) RunForUpdate(ctx context.Context, id string) (run.Run, error) {
	if err := t.lock(ctx, "run", "SELECT id FROM runs WHERE id = $1", id); err != nil {
		return run.Run{}, err
	}
	r, err := t.Run(ctx, "", id)
	if err == nil {
		t.lockedRow(id, 0)
	}
	return r, err
}

// UpdateRun keeps what a run is started with: its organization, stack, account, kind, settings and maker.
func (t *tx) UpdateRun(ctx context.Context, r run.Run) error {
	n, err := t.changing(r.ID, "storing", "run").UpdateRun(ctx, db.UpdateRunParams{
		Status: string(r.Status), Final: r.Status.Final(), Risk: r.Risk, PlanDigest: r.PlanDigest,
		ApprovalPolicy: string(r.Approval.Policy), ApprovalRequired: r.Approval.Required, ApprovalReason: r.Approval.Reason,
		ApprovalStatus: string(r.Approval.Status), ApprovalDigest: r.Approval.Digest, ApprovalBy: r.Approval.By,
		ApprovalByName: r.Approval.ByName, ApprovalAt: micros(r.Approval.At), EndedAt: micros(r.EndedAt),
		Class: string(r.Class), PartialApply: r.PartialApply, Message: r.Message, CancelAsked: r.CancelAsked,
		WaitsFor: r.WaitsFor, ID: r.ID,
	})
	if err := t.one("storing", "run", n, err); err != nil {
		return err
	}
	rows, err := t.q.ComponentHashes(ctx, r.ID)
	if err != nil {
		return t.err("reading the components of", "run", err)
	}
	stored := make(map[string]string, len(rows))
	for _, row := range rows {
		stored[row.Name] = row.Hash
	}
	return t.putComponents(ctx, r, stored)
}

// putComponents stores those components whose hash is not the stored one: a plan's view may have megabytes.
func (t *tx) putComponents(ctx context.Context, r run.Run, stored map[string]string) error {
	for i, c := range r.Components {
		f, err := componentFields(c)
		if err != nil {
			return err
		}
		f.Run, f.Place = r.ID, int64(i)
		text, err := encode(f)
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(text))
		f.Hash = hex.EncodeToString(sum[:])
		if stored[c.Name] == f.Hash {
			continue
		}
		if err := t.afterwards("storing a component of", "run").PutComponent(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) Runs(ctx context.Context, f engine.RunFilter, p engine.Page) ([]run.Run, string, error) {
	g, err := pages("runs", 1, p)
	if err != nil {
		return nil, "", err
	}
	query, err := runsQuery(f, g)
	if err != nil {
		return nil, "", err
	}
	var rows []db.Run
	switch {
	case unfinished(f.Statuses):
		rows, err = t.q.UnfinishedRuns(ctx, query)
	case f.StackID != "":
		rows, err = t.q.RunsOfStack(ctx, ofStack(query))
	default:
		rows, err = t.q.Runs(ctx, ofAll(query))
	}
	if err != nil {
		return nil, "", t.err("listing", "run", err)
	}
	return page(g, rows, func(row db.Run) (run.Run, error) {
		brief, err := t.q.ComponentsInBrief(ctx, row.ID)
		if err != nil {
			return run.Run{}, t.err("reading the components of", "run", err)
		}
		components := make([]db.Component, len(brief))
		for i, c := range brief {
			components[i] = db.Component(c)
		}
		return runOf(row, components)
	}, func(row db.Run) []string { return []string{row.ID} })
}

// unfinished is whether only runs are asked for that are not final, which an index has apart from all the others.
func unfinished(statuses []run.Status) bool {
	for _, s := range statuses {
		if s.Final() {
			return false
		}
	}
	return len(statuses) > 0
}

// runsQuery fills the query's places for statuses: lists as arguments are where the databases differ.
func runsQuery(f engine.RunFilter, g pager) (db.UnfinishedRunsParams, error) {
	q := db.UnfinishedRunsParams{
		Org: f.Org, Before: g.text(0, last), Stack: f.StackID, AnyStatus: len(f.Statuses) == 0, Count: g.count(),
	}
	places := []*string{
		&q.Status1, &q.Status2, &q.Status3, &q.Status4, &q.Status5, &q.Status6, &q.Status7, &q.Status8, &q.Status9,
		&q.Status10, &q.Status11,
	}
	if len(f.Statuses) > len(places) {
		return q, fault.New(fault.Invalid, "invalid_status", "A run has %d statuses, and %d were asked for.",
			len(places), len(f.Statuses))
	}
	for i, s := range f.Statuses {
		*places[i] = string(s)
	}
	var err error
	q.Pattern, err = pattern(f.Query)
	return q, err
}

func ofStack(q db.UnfinishedRunsParams) db.RunsOfStackParams {
	return db.RunsOfStackParams{
		Stack: q.Stack, Org: q.Org, Before: q.Before, AnyStatus: q.AnyStatus, Status1: q.Status1, Status2: q.Status2,
		Status3: q.Status3, Status4: q.Status4, Status5: q.Status5, Status6: q.Status6, Status7: q.Status7,
		Status8: q.Status8, Status9: q.Status9, Status10: q.Status10, Status11: q.Status11, Pattern: q.Pattern,
		Count: q.Count,
	}
}

func ofAll(q db.UnfinishedRunsParams) db.RunsParams {
	return db.RunsParams{
		Org: q.Org, Before: q.Before, AnyStatus: q.AnyStatus, Status1: q.Status1, Status2: q.Status2,
		Status3: q.Status3, Status4: q.Status4, Status5: q.Status5, Status6: q.Status6, Status7: q.Status7,
		Status8: q.Status8, Status9: q.Status9, Status10: q.Status10, Status11: q.Status11, Pattern: q.Pattern,
		Count: q.Count,
	}
}

func (t *tx) OpenRuns(ctx context.Context, after string, limit int) ([]string, error) {
	ids, err := t.q.OpenRuns(ctx, after, int32(limit))
	return ids, t.err("listing", "run", err)
}

// RunAhead is "" where no run is ahead.
func (t *tx) RunAhead(ctx context.Context, stackID, runID string) (string, error) {
	id, err := t.q.RunAhead(ctx, stackID, runID)
	if err := t.err("looking for the one ahead of", "run", err); err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	return id, nil
}

func runOf(r db.Run, components []db.Component) (run.Run, error) {
	out := run.Run{
		ID: r.ID, Org: r.Org, Stack: r.Stack, StackName: r.StackName, Account: r.Account, Kind: run.Kind(r.Kind),
		Status: run.Status(r.Status), Risk: r.Risk, PlanDigest: r.PlanDigest,
		Approval: run.Approval{
			Policy: run.Policy(r.ApprovalPolicy), Required: r.ApprovalRequired, Reason: r.ApprovalReason,
			Status: run.ApprovalStatus(r.ApprovalStatus), Digest: r.ApprovalDigest, By: r.ApprovalBy, ByName: r.ApprovalByName,
			At: moment(r.ApprovalAt),
		},
		Production: r.Production, Hold: r.Hold, CreatedAt: moment(r.CreatedAt), EndedAt: moment(r.EndedAt),
		Class: run.Class(r.Class), PartialApply: r.PartialApply, Message: r.Message, CancelAsked: r.CancelAsked,
		WaitsFor: r.WaitsFor, Key: r.StartKey,
	}
	if err := decode(r.CreatedBy, &out.CreatedBy); err != nil {
		return run.Run{}, err
	}
	var err error
	out.Components, err = each(components, component)
	return out, err
}

func componentFields(c run.Component) (db.PutComponentParams, error) {
	f := db.PutComponentParams{
		Name: c.Name, StateName: c.StateName, StateID: c.StateID, SourceObject: c.Source.Object, SourceSHA256: c.Source.SHA256,
		SourceSize: c.Source.Size, Inputs: string(c.Inputs), Action: c.Action, Status: string(c.Status), Message: c.Message,
		Outputs: string(c.Outputs),
	}
	if c.Plan == nil {
		return f, nil
	}
	f.View = string(c.Plan.View)
	plan := planRow(*c.Plan)
	plan.View = nil // in a column of its own, which lists leave out
	var err error
	f.Plan, err = encode(plan)
	return f, err
}

func component(r db.Component) (run.Component, error) {
	c := run.Component{
		Run: r.Run, Name: r.Name, StateName: r.StateName, StateID: r.StateID,
		Source: run.Source{Object: r.SourceObject, SHA256: r.SourceSHA256, Size: r.SourceSize}, Inputs: raw(r.Inputs),
		Action: r.Action, Status: run.ComponentStatus(r.Status), Message: r.Message, Outputs: raw(r.Outputs),
	}
	if r.Plan == "" {
		return c, nil
	}
	var plan planRow
	if err := decode(r.Plan, &plan); err != nil {
		return c, err
	}
	plan.View = raw(r.View)
	c.Plan = (*run.Plan)(&plan)
	return c, nil
}

// planRow is how a plan is stored. Its fields are those of run.Plan, which the compiler sees to; their stored
// names stay as they are whatever becomes of the others.
type planRow struct {
	Digest     string          `json:"digest"`
	Object     string          `json:"object"`
	View       json.RawMessage `json:"-"`
	Tool       string          `json:"tool"`
	Version    string          `json:"version"`
	LockFile   string          `json:"lock_file"`
	ConfigHash string          `json:"config_hash"`
	BaseSHA256 string          `json:"base_sha256"`
	BaseSerial uint64          `json:"base_serial"`

	Add        int    `json:"add"`
	Change     int    `json:"change"`
	Destroy    int    `json:"destroy"`
	Replace    int    `json:"replace"`
	Import     int    `json:"import"`
	Move       int    `json:"move"`
	Forget     int    `json:"forget"`
	Outputs    int    `json:"outputs"`
	HasChanges bool   `json:"has_changes"`
	Risk       string `json:"risk"`
}
