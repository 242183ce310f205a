package run_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

// checkTable compares a machine with its whole table: every status with every trigger, where one that is not in the
// row is refused and changes nothing.
func checkTable[S, T ~string](t *testing.T, statuses []S, triggers []T, on func(S, T) (S, error), table map[S]map[T]S) {
	t.Helper()
	if len(table) != len(statuses) {
		t.Errorf("the table has %d statuses, the machine %d", len(table), len(statuses))
	}
	for _, s := range statuses {
		row, ok := table[s]
		if !ok {
			t.Errorf("the table lacks %s", s)
		}
		for _, tr := range triggers {
			want, allowed := row[tr]
			got, err := on(s, tr)
			switch {
			case allowed && (err != nil || got != want):
				t.Errorf("%s on %s = %s, %v, want %s", s, tr, got, err, want)
			case !allowed && (!fault.Is(err, fault.Conflict) || got != s):
				t.Errorf("%s on %s = %s, %v, want it refused with a conflict and the status kept", s, tr, got, err)
			}
		}
		if got, err := on(s, "nonsense"); !fault.Is(err, fault.Conflict) || got != s {
			t.Errorf("%s on nonsense = %s, %v, want it refused", s, got, err)
		}
	}
}

func TestRunMachine(t *testing.T) {
	checkTable(t, run.Statuses(), run.Triggers(), run.Status.On, map[run.Status]map[run.Trigger]run.Status{
		run.Queued: {run.Begin: run.Planning, run.Stop: run.Cancelled},
		run.Planning: {
			run.Ask: run.AwaitingApproval, run.Proceed: run.Applying, run.Finish: run.Succeeded, run.Fail: run.Failed,
			run.AskCancel: run.Cancelling, run.Stop: run.Cancelled, run.Discard: run.Discarded,
		},
		run.AwaitingApproval: {run.Proceed: run.Applying, run.Reject: run.Rejected, run.Stop: run.Cancelled, run.Discard: run.Discarded},
		run.Applying: {
			run.Finish: run.Succeeded, run.Fail: run.Failed, run.AskCancel: run.Cancelling, run.Stop: run.Cancelled,
			run.Discard: run.Discarded,
		},
		run.Verifying:  {},
		run.Cancelling: {run.Finish: run.Succeeded, run.Fail: run.Failed, run.Stop: run.Cancelled},
		run.Succeeded:  {},
		run.Failed:     {run.Correct: run.Succeeded},
		run.Rejected:   {},
		run.Cancelled:  {},
		run.Discarded:  {},
	})
}

func TestTaskMachine(t *testing.T) {
	checkTable(t, run.TaskStatuses(), run.TaskTriggers(), run.TaskStatus.On, map[run.TaskStatus]map[run.TaskTrigger]run.TaskStatus{
		run.TaskReady: {run.TaskOffer: run.TaskOffered, run.TaskStop: run.TaskCancelled, run.TaskLate: run.TaskDone, run.TaskAmend: run.TaskFailed},
		run.TaskOffered: {
			run.TaskReturn: run.TaskReady, run.TaskAccept: run.TaskRunning, run.TaskStop: run.TaskCancelled,
			run.TaskLate: run.TaskDone, run.TaskAmend: run.TaskFailed,
		},
		run.TaskRunning: {
			run.TaskRequeue: run.TaskReady, run.TaskFinish: run.TaskDone, run.TaskFail: run.TaskFailed,
			run.TaskStop: run.TaskCancelled,
		},
		run.TaskDone:      {},
		run.TaskFailed:    {run.TaskLate: run.TaskDone, run.TaskAmend: run.TaskFailed},
		run.TaskCancelled: {},
	})
}

func TestAttemptMachine(t *testing.T) {
	checkTable(t, run.AttemptStatuses(), run.AttemptTriggers(), run.AttemptStatus.On, map[run.AttemptStatus]map[run.AttemptTrigger]run.AttemptStatus{
		run.AttemptOffered: {run.AttemptAccept: run.AttemptAccepted, run.AttemptSupersede: run.AttemptSuperseded},
		run.AttemptAccepted: {
			run.AttemptAccept: run.AttemptAccepted, run.AttemptCancel: run.AttemptCancelling, run.AttemptSucceed: run.AttemptSucceeded,
			run.AttemptFail: run.AttemptFailed, run.AttemptStop: run.AttemptCancelled, run.AttemptLose: run.AttemptLost,
		},
		run.AttemptCancelling: {
			run.AttemptAccept: run.AttemptCancelling, run.AttemptSucceed: run.AttemptSucceeded, run.AttemptFail: run.AttemptFailed,
			run.AttemptStop: run.AttemptCancelled, run.AttemptLose: run.AttemptLost,
		},
		run.AttemptSucceeded:  {},
		run.AttemptFailed:     {},
		run.AttemptCancelled:  {},
		run.AttemptLost:       {run.AttemptSucceed: run.AttemptSucceeded, run.AttemptFail: run.AttemptFailed, run.AttemptStop: run.AttemptCancelled},
		run.AttemptSuperseded: {},
	})
}

// A run that is over stays over, whatever happens to it, but for the one correction; and nothing that did not pass
// through applying ever ends as one that has applied something.
func TestRunMachineRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, path := run.Queued, []run.Status{run.Queued}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			tr := rapid.SampledFrom(run.Triggers()).Draw(t, "trigger")
			next, err := s.On(tr)
			if err != nil {
				if next != s {
					t.Fatalf("refused %s on %s, yet it became %s", s, tr, next)
				}
				continue
			}
			if s.Final() && (s != run.Failed || tr != run.Correct) {
				t.Fatalf("%s is final, yet %s made it %s", s, tr, next)
			}
			if next == run.Queued {
				t.Fatalf("%s on %s went back to the queue", s, tr)
			}
			if next == run.Rejected && s != run.AwaitingApproval {
				t.Fatalf("%s was rejected without waiting for approval", s)
			}
			s, path = next, append(path, next)
		}
		if len(path) > 7 {
			t.Fatalf("a run took more steps than there are phases: %v", path)
		}
	})
}

func ExampleStatus_On() {
	s, err := run.AwaitingApproval.On(run.Proceed)
	fmt.Println(s, err)
	_, err = run.Succeeded.On(run.Stop)
	fmt.Println(err)
	// Output:
	// applying <nil>
	// A run that is succeeded cannot stop.
}
