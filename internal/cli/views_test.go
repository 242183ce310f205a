package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

var viewNow = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(ago time.Duration) *time.Time {
	t := viewNow.Add(-ago)
	return &t
}

// evil is what may come in any text from a server: it must not reach a terminal as it is.
const evil = "a\x1b[31m\u202eb\r\nc"

// golden compares what show prints with a file, on a terminal of 80 columns and in a pipe.
func golden(t *testing.T, name string, show func(s *screen)) {
	t.Helper()
	for kind, s := range map[string]*screen{
		"piped":    {},
		"terminal": {columns: func() int { return 80 }, coloured: true},
	} {
		var b bytes.Buffer
		s.w = &b
		show(s)
		got := b.String()
		wantPlain(t, name+" "+kind, got, kind == "terminal")
		file := filepath.Join("testdata", "views", name+"."+kind)
		got = strings.ReplaceAll(got, "\x1b", "␛")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", file, diff)
		}
	}
}

// wantPlain fails where text steers a terminal by other means than our own colours.
func wantPlain(t *testing.T, what, text string, colours bool) {
	t.Helper()
	if colours {
		text = strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[36m", "", "\x1b[1A\r\x1b[J", "").Replace(text)
	}
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%s holds %U:\n%q", what, r, text)
			return
		}
	}
}

func planOf(t *testing.T, fixture string) *plan.View {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "plan", "testdata", fixture))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := plan.Reduce(f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPlanViews(t *testing.T) {
	for _, fixture := range []string{"classes", "replace", "destroy", "sensitive", "move", "import", "forget", "output", "errored", "check", "nothing"} {
		v := planOf(t, "opentofu."+fixture+".json")
		golden(t, "plan-"+fixture, func(s *screen) { showPlan(s, []planned{{"main", *v}}, false) })
	}
}

func TestPlanViewIsBounded(t *testing.T) {
	v := plan.View{LeftOut: 7}
	for range shownChanges + 5 {
		v.Changes = append(v.Changes, plan.Change{Address: "terraform_data.x" + evil, Class: plan.Create})
	}
	var b bytes.Buffer
	showPlan(&screen{w: &b}, []planned{{"main", v}}, false)
	if !strings.Contains(b.String(), "  and 12 more\n") || strings.Count(b.String(), "terraform_data.x") != shownChanges {
		t.Errorf("got %d changes:\n%.300s", strings.Count(b.String(), "terraform_data.x"), b.String())
	}
	wantPlain(t, "a plan", b.String(), false)
	b.Reset()
	showPlan(&screen{w: &b}, []planned{{"main", v}}, true)
	if !strings.Contains(b.String(), "  and 7 more\n") || strings.Count(b.String(), "terraform_data.x") != shownChanges+5 {
		t.Errorf("whole: got %d changes", strings.Count(b.String(), "terraform_data.x"))
	}
}

func listedRun() api.RunListed {
	return api.RunListed{
		ID: "run_01jzv3k9q2c8w4n6m0r5t7x1ab", Stack: "shop", Kind: "deploy", Status: "succeeded", Risk: "high", PlanDigest: "sha256:1234",
		Approval:  api.Approval{Required: true, Policy: "always", Status: "approved", Digest: "sha256:1234", By: "ada", At: at(4 * time.Minute)},
		CreatedBy: api.Person{Name: "ada"}, CreatedAt: *at(5 * time.Minute), EndedAt: at(3 * time.Minute),
		Totals: api.Counts{Add: 1, Change: 2, Destroy: 3, Replace: 4},
	}
}

func wholeRun() api.Run {
	return api.Run{
		RunListed: listedRun(), Account: "local",
		Components: []api.RunComponent{{
			Name: "main", State: "shop.main", Status: "done", Message: evil, Plan: &api.ComponentPlan{Counts: api.Counts{Destroy: 3, Replace: 4, Change: 2, Add: 1}},
			Outputs: json.RawMessage(`{"url":{"value":"https://a.example/\u001b[31m\u202e","type":"string"},"key":{"sensitive":true},"sizes":{"value":{"b":[1,2],"a":null}}}`),
		}},
		Attempts: []api.Attempt{
			{Component: "main", Kind: "plan", Number: 1, Status: "lost", AcceptedAt: at(290 * time.Second), EndedAt: at(280 * time.Second), Agent: "runner", Message: "no heartbeat"},
			{Component: "main", Kind: "plan", Number: 2, Status: "succeeded", AcceptedAt: at(270 * time.Second), EndedAt: at(265 * time.Second), Agent: "runner"},
			{Component: "main", Kind: "apply", Number: 1, Status: "succeeded", AcceptedAt: at(230 * time.Second), EndedAt: at(185 * time.Second), Agent: "runner"},
		},
	}
}

func TestRunViews(t *testing.T) {
	golden(t, "run", func(s *screen) { showRun(s, "https://hf.example", wholeRun()) })
	golden(t, "run-summary", func(s *screen) { showOutputs(s, wholeRun().Components); summary(s, "https://hf.example", wholeRun()) })
	failed := wholeRun()
	failed.Status, failed.Class, failed.Message, failed.PartialApply = "failed", "infrastructure", "apply failed: "+evil, true
	golden(t, "run-failed", func(s *screen) { summary(s, "https://hf.example", failed) })
	waiting := listedRun()
	waiting.Status, waiting.Approval.Status, waiting.Stack, waiting.EndedAt = "awaiting_approval", "pending", evil, nil
	golden(t, "runs", func(s *screen) {
		showRuns(s, viewNow, []api.RunListed{listedRun(), waiting, {ID: "run_1", Stack: "b", Status: "queued"}})
	})
	golden(t, "runs-none", func(s *screen) { showRuns(s, viewNow, nil) })
}

func TestListViews(t *testing.T) {
	serial := uint64(12345678901234567890)
	lock := &api.Lock{
		ID: "2655019c", Operation: "OperationTypeApply", Who: "ada@laptop" + evil, TakenAt: *at(2 * time.Hour), Unlock: "holdfast state unlock shop.main --id 2655019c --force",
		Holder: api.Holder{Kind: "attempt", Name: "runner", Run: "run_1", Alive: "no", Evidence: "no heartbeat for 2 hours", LastSeen: at(2 * time.Hour)},
	}
	states := []api.State{
		{Name: "shop.main", Version: 3, Serial: &serial, Size: 1536, UpdatedAt: *at(49 * time.Hour), Lock: lock, SHA256: "ab12", CreatedAt: *at(50 * time.Hour)},
		{Name: evil, Version: 1, ClientEncrypted: true, Size: 3 << 20, UpdatedAt: *at(time.Second), Hold: &api.Hold{ID: "hold-run_1", Run: "run_1", Since: *at(time.Minute)}},
		{Name: "empty", UpdatedAt: *at(time.Hour)},
	}
	golden(t, "states", func(s *screen) { showStates(s, viewNow, states) })
	golden(t, "state", func(s *screen) { showState(s, viewNow, states[0]) })
	golden(t, "state-held", func(s *screen) { showState(s, viewNow, states[1]) })
	golden(t, "versions", func(s *screen) {
		showVersions(s, viewNow, []api.StateVersion{
			{Version: 2, Serial: &serial, Source: "write", Current: true, Size: 10, CreatedAt: *at(time.Minute), CreatedBy: api.Holder{Name: "runner", Run: "run_1"}, ToolVersion: "1.12.6"},
			{Version: 1, Source: "recovery", Quarantined: true, Size: 10, CreatedAt: *at(time.Hour), CreatedBy: api.Holder{Name: evil}},
		})
	})
	golden(t, "states-moved", func(s *screen) {
		showMoved(s, movedReport{Failed: 1, States: []moved{
			{State: "net", Place: "in/net.tfstate", Outcome: "imported", Serial: &serial, Size: 1536},
			{State: "dns", Place: "dns", Outcome: "would_import", Size: 10},
			{State: "old", Place: "in/old.tfstate", Outcome: "unchanged", Size: 10},
			{State: evil, Place: evil, Outcome: "failed", Error: &failure{Detail: evil, Hint: evil}},
		}})
	})
	golden(t, "states-moved-none", func(s *screen) { showMoved(s, movedReport{}) })
	golden(t, "pushed", func(s *screen) {
		for _, outcome := range []string{"stored", "unchanged", "would_store", "would_be_unchanged"} {
			showPushed(s, pushed{State: evil, Outcome: outcome, Version: 3, Serial: &serial, Size: 10})
		}
	})
	golden(t, "released", func(s *screen) {
		showReleased(s, states[0], api.State{Name: "shop.main"})
		showReleased(s, states[1], api.State{Name: evil})
		showReleased(s, states[0], states[0])
	})
	golden(t, "rolled-back", func(s *screen) {
		showCurrent(s, evil, api.StateVersion{Version: 4, Source: "rollback", Serial: &serial, Size: 10})
	})
	golden(t, "backend-config", func(s *screen) {
		showBackend(s, "shop.main", "tofu", backendConfig{
			Address:     "https://hf.example/api/tf-states/shop.main/state",
			LockAddress: "https://hf.example/api/tf-states/shop.main/lock", UnlockAddress: "https://hf.example/api/tf-states/shop.main/lock", LockMethod: "LOCK", UnlockMethod: "UNLOCK", Username: "token",
		})
	})
	last := listedRun()
	golden(t, "stacks", func(s *screen) {
		showStacks(s, viewNow, []api.Stack{{Name: "shop", Account: "local", Production: true, Approval: "high_risk", LastRun: &last}, {Name: evil, Account: "local", Approval: "never"}})
	})
	golden(t, "agents", func(s *screen) {
		showAgents(s, viewNow, []api.Agent{{Name: "runner", Account: "local", Status: "online", LastSeenAt: at(3 * time.Second), Version: "1.2.3", ID: "agt_1"}, {Name: evil, Status: "never_seen", ID: "agt_2"}, {Name: "old", Status: "revoked", ID: "agt_3"}})
	})
	golden(t, "tokens", func(s *screen) {
		showTokens(s, viewNow, []api.Token{
			{Name: "laptop", UserName: "ada", Role: "admin", ExpiresAt: at(-72 * time.Hour), LastUsedAt: at(time.Minute), ID: "tok_1"},
			{Name: "ci", UserName: "ci", Role: "operator", ExpiresAt: at(time.Hour), ID: "tok_2"},
			{Name: evil, RevokedAt: at(time.Hour), ID: "tok_3"},
			{Name: "bootstrap", ID: "tok_4"},
		})
	})
	golden(t, "users", func(s *screen) {
		showUsers(s, viewNow, []api.User{{Name: "ada", Role: "admin", CreatedAt: *at(time.Hour), ID: "usr_1"}, {Name: evil, Role: "viewer", Service: true, DisabledAt: at(1), CreatedAt: *at(time.Hour), ID: "usr_2"}})
	})
	golden(t, "permissions", func(s *screen) {
		showPermissions(s, []api.Permission{
			{Permission: "run:read", Role: "viewer", DefaultRole: "viewer"},
			{Permission: "tf_state:manage", Role: "disabled", DefaultRole: "admin", Allocatable: true},
			{Permission: evil, Role: "operator", DefaultRole: "operator", Allocatable: true},
		})
	})
	golden(t, "accounts", func(s *screen) {
		showAccounts(s, viewNow, []api.Account{{Name: "111122223333", Enabled: true, CreatedAt: *at(time.Hour), ID: "acc_1"}, {Name: evil, CreatedAt: *at(time.Hour), ID: "acc_2"}})
	})
	three, five := uint64(3), uint64(5)
	golden(t, "diff", func(s *screen) {
		showDiff(s, "net.main", api.StateDiff{
			From: 3, To: 5, SerialFrom: &three, SerialTo: &five, LineageChanged: true, Unchanged: 7, More: 2,
			Resources: []api.ResourceChange{
				{Address: evil, Action: "removed", Attributes: []api.AttributeChange{{Path: "id", Before: json.RawMessage(`"gone"`)}}},
				{
					Address: `module.m["k"].aws_db.main[0]`, Action: "changed", AttributesMore: 3,
					About: []api.AttributeChange{{Path: "status", After: json.RawMessage(`"tainted"`)}},
					Attributes: []api.AttributeChange{
						{Path: "password", Sensitive: true},
						{Path: evil, Before: json.RawMessage(`"a\u001b"`), After: json.RawMessage("{\n\"x\": 9007199254740993}")},
						{Path: "tags.Name", Before: json.RawMessage(`"old"`)},
						{Path: "text", Before: json.RawMessage(`"long…"`), After: json.RawMessage(`"other…"`), Cut: true},
					},
				},
				{Address: "aws_vpc.new", Action: "added", Deposed: "00c0ffee", Attributes: []api.AttributeChange{{Path: "id", After: json.RawMessage(`"vpc-1"`)}}},
			},
			Outputs: []api.OutputChange{
				{Name: "url", Action: "changed", Before: json.RawMessage(`"a"`), After: json.RawMessage(`"b"`)}, {Name: "token", Action: "added", Sensitive: true},
			},
		})
	})
	golden(t, "diff-none", func(s *screen) { showDiff(s, "net.main", api.StateDiff{From: 1, To: 2, Unchanged: 4}) })
	golden(t, "diff-encrypted", func(s *screen) {
		showDiff(s, "net.main", api.StateDiff{To: 1, SerialTo: &five, Unreadable: "client_encrypted"})
	})
	resources := []api.Resource{
		{State: "net", Address: `module.m["k"].aws_vpc.main`, Type: "aws_vpc", Instances: 12, Provider: "registry.opentofu.org/hashicorp/aws"},
		{State: evil, Address: evil, Type: evil, Provider: ""},
	}
	golden(t, "resources", func(s *screen) { showResources(s, resources, false) })
	golden(t, "resources-all", func(s *screen) { showResources(s, resources, true) })
	golden(t, "outputs-state", func(s *screen) {
		showStateOutputs(s, api.StateOutputs{More: 3, Items: []api.StateOutput{
			{Name: "ids", Value: json.RawMessage(`["a",{"b":9007199254740993}]`)}, {Name: "secret", Sensitive: true}, {Name: evil, Value: json.RawMessage(`"long…"`), Cut: true},
		}})
	})
	golden(t, "audit", func(s *screen) {
		showAudit(s, []api.AuditRecord{{Seq: 2, At: *at(time.Minute), ActorName: "ada", Action: "run.approve", Object: "run_1", Data: json.RawMessage(`{"plan_digest": "sha256:1", "x": "` + "\u202e" + `"}`)}, {Seq: 1, At: *at(time.Hour), ActorKind: "system", Action: "run.end", Object: evil, Data: json.RawMessage("null")}})
	})
	golden(t, "verified", func(s *screen) { showVerified(s, api.AuditVerified{Intact: true, Records: 28, Anchor: "28:ab"}) })
	golden(t, "broken", func(s *screen) { showVerified(s, api.AuditVerified{Records: 28, BrokenAt: 3, Reason: evil}) })
	golden(t, "whoami", func(s *screen) {
		showWhoami(s, "https://hf.example", api.Whoami{Kind: "user", Name: "ada", Role: "admin", ID: "usr_1", Organization: evil})
	})
}

func TestLiveLines(t *testing.T) {
	r := wholeRun()
	r.Status, r.EndedAt, r.Components[0].Status, r.Components[0].Message = "applying", nil, "applying", ""
	r.Attempts[2].EndedAt, r.Attempts[2].Stage, r.Attempts[2].Progress, r.Attempts[2].AcceptedAt = nil, "apply", "3 of 7 done, 1 running "+evil+strings.Repeat("x", 100), at(75*time.Second)
	golden(t, "live", func(s *screen) {
		now := viewNow
		l := newLive(s, func() time.Time { return now })
		l.update(r)
		l.event(api.Event{Level: "WARN", Text: "the provider is slow: " + evil})
		l.event(api.Event{Level: "INFO", Text: "not shown"})
		now = now.Add(2 * time.Second)
		l.tick()
		l.pause()
		s.print("a question\n")
		l.tick()
		l.resume()
		waiting := r
		waiting.Attempts = nil
		l.update(waiting)
		now = now.Add(patientFor)
		l.tick()
		over := r
		over.EndedAt = at(0)
		l.update(over)
		l.pause()
	})
}
