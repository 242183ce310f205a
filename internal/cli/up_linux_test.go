package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/plan"
)

// workplace is a folder with a configuration, a server, and an environment that knows it.
type workplace struct {
	*server
	dir     string
	environ []string
}

func newWorkplace(t testing.TB) *workplace {
	t.Helper()
	w := &workplace{server: newServer(t, t.TempDir()), dir: filepath.Join(t.TempDir(), "shop")}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.write(t, "main.tf", `resource "terraform_data" "greeting" {}`)
	w.environ = []string{"HOME=" + t.TempDir(), "HOLDFAST_ADDR=" + w.url(), "HOLDFAST_TOKEN=" + adminToken}
	return w
}

func (w *workplace) write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run is the only run there is, or the newest.
func (w *workplace) run(t testing.TB) api.Run {
	t.Helper()
	c := w.client(t, adminToken)
	runs, err := c.Runs(t.Context(), client.RunFilter{}, client.Page{Limit: 1})
	if err != nil || len(runs.Items) == 0 {
		t.Fatalf("runs = %+v, %v", runs, err)
	}
	r, err := c.Run(t.Context(), runs.Items[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *workplace) wantStatus(t testing.TB, want string) api.Run {
	t.Helper()
	r := w.run(t)
	if r.Status != want {
		t.Fatalf("the run is %s (%s), want %s", r.Status, r.Message, want)
	}
	return r
}

func TestUpAsksAndAppliesExactlyThat(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	term := onTerminal(t, w.environ, "up", w.dir)
	term.expect("-/+")
	term.expect("terraform_data.plaque")
	term.expect("because it cannot change in place: engraving")
	term.expect("(sensitive)")
	term.expect("High risk: destroys 1 object.")
	r := w.wantStatus(t, "awaiting_approval")
	term.expect("Apply exactly this plan (" + r.PlanDigest + ") in shop? [y/N] ")
	term.send("y\n")
	term.expect("password = ")
	term.expect("(sensitive)")
	term.expect("Done.")
	term.expect("Applied: 1 replaced, 1 changed.")
	term.expect(w.url() + "/runs/" + r.ID)
	term.exit(0)
	end := w.wantStatus(t, "succeeded")
	if end.Approval.Status != "approved" || end.Approval.Digest != r.PlanDigest {
		t.Errorf("approval = %+v, want one of %s", end.Approval, r.PlanDigest)
	}
	if strings.Contains(term.all(), "red") && strings.Contains(term.all(), "␛[31mred") {
		t.Errorf("an output steers the terminal:\n%s", term.all())
	}
}

func TestUpTakesNoForAnAnswer(t *testing.T) {
	for _, answer := range []string{"n\n", "\n", "yep\n"} {
		w := newWorkplace(t)
		newAgent(t, w.server, nil)
		term := onTerminal(t, w.environ, "up", w.dir)
		term.expect("[y/N] ")
		term.send(answer)
		term.expect("Rejected by admin.")
		term.exit(3)
		w.wantStatus(t, "rejected")
	}
}

// What is typed while the plan is being made is no answer to a question that was not there.
func TestUpDropsWhatWasTypedBeforeTheQuestion(t *testing.T) {
	w := newWorkplace(t)
	a := newAgent(t, w.server, func(a *agent) { a.plans = make(chan struct{}, 1) })
	term := onTerminal(t, w.environ, "up", w.dir)
	term.expect("planning: plan")
	term.send("y\n")
	a.plans <- struct{}{}
	term.expect("[y/N] ")
	w.wantStatus(t, "awaiting_approval")
	term.send("n\n")
	term.exit(3)
	w.wantStatus(t, "rejected")
}

func TestUpWantsTheWholeWordBeforeItDestroysInProduction(t *testing.T) {
	for answer, want := range map[string]string{"y\n": "rejected", "yes\n": "succeeded"} {
		w := newWorkplace(t)
		newAgent(t, w.server, nil)
		term := onTerminal(t, w.environ, "up", w.dir, "--production")
		term.expect("It destroys something in production: type yes")
		term.send(answer)
		term.exit(map[string]int{"rejected": 3, "succeeded": 0}[want])
		w.wantStatus(t, want)
	}
}

func TestApproveWantsTheWholeWordToo(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	up := onTerminal(t, w.environ, "up", w.dir, "--production")
	up.expect("type yes")
	r := w.run(t)
	term := onTerminal(t, w.environ, "run", "approve", r.ID)
	term.expect("type yes")
	term.send("y\n")
	term.exit(3)
	w.wantStatus(t, "awaiting_approval")
	up.send(ctrlC)
	up.exit(3)
}

func TestUpEndOfInputLeavesThePlanWaiting(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	term := onTerminal(t, w.environ, "up", w.dir)
	term.expect("[y/N] ")
	term.send("\x04")
	term.expect("the plan goes on waiting")
	term.exit(3)
	w.wantStatus(t, "awaiting_approval")
}

func TestUpSeesAnAnswerThatIsGivenElsewhere(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	term := onTerminal(t, w.environ, "up", w.dir)
	term.expect("[y/N] ")
	r := w.run(t)
	if _, err := w.client(t, adminToken).ApproveRun(t.Context(), r.ID, r.PlanDigest); err != nil {
		t.Fatal(err)
	}
	term.expect("Answered elsewhere:")
	term.expect("Done.")
	term.exit(0)
}

func TestCtrlCAtTheQuestionCancels(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	term := onTerminal(t, w.environ, "up", w.dir)
	term.expect("[y/N] ")
	term.send(ctrlC)
	term.expect("Cancelled by admin.")
	term.exit(3)
	w.wantStatus(t, "cancelled")
}

func TestCtrlCOnceAsksAndGoesOnWatching(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, func(a *agent) { a.applies = make(chan struct{}) })
	term := onTerminal(t, w.environ, "up", w.dir, "--yes")
	term.expect("applying: apply")
	term.expect("1 of 2 done, 1 running")
	term.send(ctrlC)
	term.expect("Press Ctrl-C again to leave it alone.")
	term.expect("Cancelled")
	term.exit(3)
	w.wantStatus(t, "cancelled")
}

func TestCtrlCTwiceLeavesItRunning(t *testing.T) {
	w := newWorkplace(t)
	// An agent that never hears the order: its task is not looked at between the two.
	a := newAgent(t, w.server, func(a *agent) { a.applies = make(chan struct{}); a.deaf = true })
	term := onTerminal(t, w.environ, "up", w.dir, "--yes")
	term.expect("applying: apply")
	term.send(ctrlC)
	term.expect("Press Ctrl-C again")
	term.send(ctrlC)
	r := w.run(t)
	term.expect("Watch it: holdfast run watch " + r.ID)
	term.exit(3)
	w.wantStatus(t, "cancelling")
	close(a.applies)
}

func TestCtrlCEndsOnlyTheWatching(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	up := onTerminal(t, w.environ, "up", w.dir)
	up.expect("[y/N] ")
	r := w.run(t)
	watch := onTerminal(t, w.environ, "run", "watch", r.ID)
	watch.expect("holdfast run approve " + r.ID)
	watch.send(ctrlC)
	watch.expect("Left running.")
	watch.exit(0)
	w.wantStatus(t, "awaiting_approval")
	up.send("y\n")
	up.exit(0)
}

func TestUpGoesOnWhenTheServerIsRestarted(t *testing.T) {
	w := newWorkplace(t)
	a := newAgent(t, w.server, func(a *agent) { a.plans, a.applies = make(chan struct{}, 1), make(chan struct{}, 1) })
	term := onTerminal(t, w.environ, "up", w.dir, "--yes")
	term.expect("planning: plan")
	w.halt(t)
	term.expect("Connection lost:")
	w.start(t)
	term.expect("Connected again.")
	a.plans <- struct{}{}
	term.expect("applying: apply")
	w.halt(t)
	term.expect("Connection lost:")
	w.start(t)
	a.applies <- struct{}{}
	term.expect("Done.")
	term.exit(0)
	w.wantStatus(t, "succeeded")
}

func TestUpShowsTheLogOfAFailure(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, func(a *agent) { a.fails = "plan failed: Invalid reference" })
	term := onTerminal(t, w.environ, "up", w.dir, "--yes")
	term.expect(`| plan of main`)
	term.expect(`\x1b[1mbold`)
	term.expect("Failed:")
	term.expect("Invalid reference")
	term.expect("holdfast run logs")
	term.exit(1)
}

func TestApproveOnATerminalShowsThePlan(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	up := onTerminal(t, w.environ, "up", w.dir)
	up.expect("[y/N] ")
	r := w.run(t)
	no := onTerminal(t, w.environ, "run", "approve", r.ID)
	no.expect("terraform_data.plaque")
	no.expect(r.PlanDigest)
	no.send("n\n")
	no.exit(3)
	w.wantStatus(t, "awaiting_approval")
	yes := onTerminal(t, w.environ, "run", "approve", r.ID)
	yes.expect("[y/N] ")
	yes.send("y\n")
	yes.expect("Approved")
	yes.exit(0)
	up.exit(0)
}

func TestQuestionsEndWithCtrlC(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, nil)
	up := onTerminal(t, w.environ, "up", w.dir)
	up.expect("[y/N] ")
	r := w.run(t)
	for _, args := range [][]string{{"stack", "delete", "shop"}, {"run", "approve", r.ID}} {
		term := onTerminal(t, w.environ, args...)
		term.expect("[y/N] ")
		term.send(ctrlC)
		term.expect("interrupted")
		term.exit(1)
	}
	w.wantStatus(t, "awaiting_approval")
	up.send(ctrlC)
	up.exit(3)
}

func TestLoginAsksWithoutShowing(t *testing.T) {
	w := newWorkplace(t)
	home := t.TempDir()
	environ := []string{"HOME=" + home}
	wrong := onTerminal(t, environ, "login", w.url())
	wrong.expect("Token for " + w.url() + ": ")
	wrong.send("hf_pat_wrong\n")
	wrong.exit(4)
	file := filepath.Join(home, ".config", "holdfast", "config.json")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a token that is not accepted was kept: %v", err)
	}
	term := onTerminal(t, environ, "login", w.url())
	term.expect("Token for " + w.url() + ": ")
	term.send(adminToken + "\n")
	term.expect("Signed in to " + w.url() + " as ")
	term.exit(0)
	stopped := onTerminal(t, environ, "login", w.url())
	stopped.expect("Token for ")
	stopped.send(ctrlC)
	stopped.expect("No token was given.")
	stopped.exit(2)
	if strings.Contains(term.all(), adminToken) || strings.Contains(wrong.all(), "wrong\r\n\x1b") || strings.Contains(wrong.all(), "hf_pat_wrong") {
		t.Errorf("the token is on the screen:\n%s", term.all())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of tokens = %v, %v, want mode 0600", info, err)
	}
}

// A second change while the first waits: the later run says what it waits for.
func TestUpSaysWhichRunIsAhead(t *testing.T) {
	w := newWorkplace(t)
	newAgent(t, w.server, func(a *agent) { a.view = func(api.Work) plan.View { return oneReplace() } })
	first := onTerminal(t, w.environ, "up", w.dir)
	first.expect("[y/N] ")
	r := w.run(t)
	second := onTerminal(t, w.environ, "up", w.dir)
	second.expect("waits for run " + r.ID)
	first.send("n\n")
	first.exit(3)
	second.expect("[y/N] ")
	second.send("n\n")
	second.exit(3)
}
