package run_test

import (
	"testing"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

func TestNeedsApproval(t *testing.T) {
	kinds := []run.Kind{run.Deploy, run.Destroy, run.Preview}
	policies := []run.Policy{run.Always, run.HighRisk, run.Never}
	risks := []string{run.RiskNone, run.RiskLow, run.RiskHigh, "unheard of"}
	for _, kind := range kinds {
		for _, policy := range policies {
			for _, risk := range risks {
				for _, production := range []bool{false, true} {
					for _, changes := range []bool{false, true} {
						for _, unplanned := range [][]string{nil, {"api"}} {
							p := run.Planned{Kind: kind, Policy: policy, Production: production, Changes: changes, Risk: risk, Unplanned: unplanned}
							got, reason := p.NeedsApproval()
							if want := wanted(p); got != want {
								t.Errorf("%+v needs approval = %t, want %t", p, got, want)
							}
							if reason == "" {
								t.Errorf("%+v: no reason", p)
							}
						}
					}
				}
			}
		}
	}
}

// wanted says the rules of spec/20 in another way: who can say no, and to what.
func wanted(p run.Planned) bool {
	somethingToDo := p.Changes || len(p.Unplanned) > 0
	if p.Kind == run.Preview || !somethingToDo {
		return false
	}
	harmless := (p.Risk == run.RiskNone || p.Risk == run.RiskLow) && len(p.Unplanned) == 0
	byPolicy := map[run.Policy]bool{run.Always: true, run.HighRisk: !harmless, run.Never: false}[p.Policy]
	return byPolicy || p.Production && !harmless
}

func TestStrictest(t *testing.T) {
	for _, c := range []struct{ stack, asked, want run.Policy }{
		{run.Never, "", run.Never},
		{run.Never, run.Never, run.Never},
		{run.Never, run.HighRisk, run.HighRisk},
		{run.Never, run.Always, run.Always},
		{run.HighRisk, "", run.HighRisk},
		{run.HighRisk, run.Never, ""},
		{run.HighRisk, run.HighRisk, run.HighRisk},
		{run.HighRisk, run.Always, run.Always},
		{run.Always, "", run.Always},
		{run.Always, run.Never, ""},
		{run.Always, run.HighRisk, ""},
		{run.Always, run.Always, run.Always},
		{run.Never, "sometimes", ""},
	} {
		got, err := run.Strictest(c.stack, c.asked)
		if got != c.want || (c.want == "") != fault.Is(err, fault.Unprocessable) {
			t.Errorf("Strictest(%s, %q) = %q, %v, want %q", c.stack, c.asked, got, err, c.want)
		}
	}
}

func TestStackPolicy(t *testing.T) {
	for _, c := range []struct {
		asked      run.Policy
		production bool
		want       run.Policy
	}{
		{"", false, run.Never},
		{"", true, run.HighRisk},
		{run.Never, false, run.Never},
		{run.Never, true, ""},
		{run.HighRisk, true, run.HighRisk},
		{run.Always, true, run.Always},
		{"sometimes", false, ""},
	} {
		got, err := run.StackPolicy(c.asked, c.production)
		if got != c.want || (c.want == "") != fault.Is(err, fault.Unprocessable) {
			t.Errorf("StackPolicy(%q, production %t) = %q, %v, want %q", c.asked, c.production, got, err, c.want)
		}
	}
}

func TestHighestRisk(t *testing.T) {
	planned := func(risk string) run.Component { return run.Component{Plan: &run.Plan{Risk: risk}} }
	for _, c := range []struct {
		name string
		of   []run.Component
		want string
	}{
		{"nothing", nil, run.RiskNone},
		{"none", []run.Component{planned(run.RiskNone)}, run.RiskNone},
		{"low beside none", []run.Component{planned(run.RiskLow), planned(run.RiskNone)}, run.RiskLow},
		{"high beside low", []run.Component{planned(run.RiskHigh), planned(run.RiskLow)}, run.RiskHigh},
		{"a risk nobody knows", []run.Component{planned("novel")}, run.RiskHigh},
		{"one that could not be planned", []run.Component{planned(run.RiskNone), {}}, run.RiskHigh},
	} {
		if got := run.HighestRisk(c.of); got != c.want {
			t.Errorf("%s: HighestRisk = %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"shop": true, "0": true, "A_b-9": true, "": false, "a.b": false, "-a": false, "_a": false, "a b": false, "é": false, "a/b": false, "a\n": false,
	} {
		if err := run.CheckName("stack", name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v, want valid %t", name, err, ok)
		}
	}
	long := make([]byte, run.MaxNameBytes)
	for i := range long {
		long[i] = 'a'
	}
	if err := run.CheckName("stack", string(long)); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	if err := run.CheckName("stack", string(long)+"a"); err == nil {
		t.Error("a name that is too long was taken")
	}
}

func TestParseKind(t *testing.T) {
	for s, want := range map[string]run.Kind{"": run.Deploy, "deploy": run.Deploy, "destroy": run.Destroy, "preview": run.Preview, "drift": "", "Deploy": ""} {
		got, err := run.ParseKind(s)
		if got != want || (want == "") != fault.Is(err, fault.Invalid) {
			t.Errorf("ParseKind(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
}
