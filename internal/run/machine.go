package run

import (
	"holdfast.dev/holdfast/internal/fault"
)

// Trigger is what can happen to a run.
type Trigger string

// The triggers of a run.
const (
	Begin     Trigger = "begin"      // its turn has come: planning starts
	Ask       Trigger = "ask"        // planned, and a person has to approve
	Proceed   Trigger = "proceed"    // approved, or planned and nobody needs to approve
	Finish    Trigger = "finish"     // everything that was to be done is done
	Fail      Trigger = "fail"       // a task failed for good
	Reject    Trigger = "reject"     // a person said no
	AskCancel Trigger = "ask_cancel" // a person wants it stopped, and an agent is at work
	Stop      Trigger = "stop"       // cancelled, and no agent is at work
	Discard   Trigger = "discard"    // what was planned does not fit what is there any more
	Correct   Trigger = "correct"    // the report of a lost apply came after all: it had succeeded
)

// Triggers are all of them.
func Triggers() []Trigger {
	return []Trigger{Begin, Ask, Proceed, Finish, Fail, Reject, AskCancel, Stop, Discard, Correct}
}

// Statuses are all statuses of a run.
func Statuses() []Status {
	return []Status{
		Queued, Planning, AwaitingApproval, Applying, Verifying, Cancelling,
		Succeeded, Failed, Rejected, Cancelled, Discarded,
	}
}

// On is the status after t. A Conflict, and s itself, where t cannot happen to a run in status s. (What may be a
// correction, a failure of class lost alone, is the engine's to check: the machine does not see the class.)
func (s Status) On(t Trigger) (Status, error) {
	to := Status("")
	switch t {
	case Begin:
		to = only(s, Planning, Queued)
	case Ask:
		to = only(s, AwaitingApproval, Planning)
	case Proceed:
		to = only(s, Applying, Planning, AwaitingApproval)
	case Finish:
		to = only(s, Succeeded, Planning, Applying, Cancelling)
	case Fail:
		to = only(s, Failed, Planning, Applying, Cancelling)
	case Reject:
		to = only(s, Rejected, AwaitingApproval)
	case AskCancel:
		to = only(s, Cancelling, Planning, Applying)
	case Stop:
		to = only(s, Cancelled, Queued, Planning, AwaitingApproval, Applying, Cancelling)
	case Discard:
		to = only(s, Discarded, Planning, AwaitingApproval, Applying)
	case Correct:
		to = only(s, Succeeded, Failed)
	}
	if to == "" {
		return s, refused("run", string(s), string(t))
	}
	return to, nil
}

// TaskTrigger is what can happen to a task.
type TaskTrigger string

// The triggers of a task.
const (
	TaskOffer   TaskTrigger = "offer"   // told to an agent
	TaskReturn  TaskTrigger = "return"  // the offer was not accepted in time
	TaskAccept  TaskTrigger = "accept"  // the agent took it
	TaskRequeue TaskTrigger = "requeue" // its attempt was lost or drained, and it may be tried again
	TaskFinish  TaskTrigger = "finish"  // reported as done
	TaskFail    TaskTrigger = "fail"    // reported as failed, or lost for good
	TaskStop    TaskTrigger = "stop"    // cancelled before an agent took it, or the agent says it has stopped
	TaskLate    TaskTrigger = "late"    // a lost attempt reported success before another one was accepted
	TaskAmend   TaskTrigger = "amend"   // a lost attempt reported a failure before another one was accepted
)

// TaskTriggers are all of them.
func TaskTriggers() []TaskTrigger {
	return []TaskTrigger{TaskOffer, TaskReturn, TaskAccept, TaskRequeue, TaskFinish, TaskFail, TaskStop, TaskLate, TaskAmend}
}

// TaskStatuses are all statuses of a task.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{TaskReady, TaskOffered, TaskRunning, TaskDone, TaskFailed, TaskCancelled}
}

// On is the status after t. A Conflict, and s itself, where t cannot happen to a task in status s.
func (s TaskStatus) On(t TaskTrigger) (TaskStatus, error) {
	to := TaskStatus("")
	switch t {
	case TaskOffer:
		to = only(s, TaskOffered, TaskReady)
	case TaskReturn:
		to = only(s, TaskReady, TaskOffered)
	case TaskAccept:
		to = only(s, TaskRunning, TaskOffered)
	case TaskRequeue:
		to = only(s, TaskReady, TaskRunning)
	case TaskFinish:
		to = only(s, TaskDone, TaskRunning)
	case TaskFail:
		to = only(s, TaskFailed, TaskRunning)
	case TaskStop:
		to = only(s, TaskCancelled, TaskReady, TaskOffered, TaskRunning)
	case TaskLate:
		to = only(s, TaskDone, TaskReady, TaskOffered, TaskFailed)
	case TaskAmend:
		to = only(s, TaskFailed, TaskReady, TaskOffered, TaskFailed)
	}
	if to == "" {
		return s, refused("task", string(s), string(t))
	}
	return to, nil
}

// AttemptTrigger is what can happen to an attempt.
type AttemptTrigger string

// The triggers of an attempt.
const (
	AttemptAccept    AttemptTrigger = "accept"    // the agent takes it, again where its answer was lost
	AttemptCancel    AttemptTrigger = "cancel"    // a person wants it stopped
	AttemptSucceed   AttemptTrigger = "succeed"   // reported
	AttemptFail      AttemptTrigger = "fail"      // reported
	AttemptStop      AttemptTrigger = "stop"      // reported: it has stopped as asked, or because its agent did
	AttemptLose      AttemptTrigger = "lose"      // no sign of life for too long
	AttemptSupersede AttemptTrigger = "supersede" // the offer ended: not accepted in time, or not wanted any more
)

// AttemptTriggers are all of them.
func AttemptTriggers() []AttemptTrigger {
	return []AttemptTrigger{AttemptAccept, AttemptCancel, AttemptSucceed, AttemptFail, AttemptStop, AttemptLose, AttemptSupersede}
}

// AttemptStatuses are all statuses of an attempt.
func AttemptStatuses() []AttemptStatus {
	return []AttemptStatus{
		AttemptOffered, AttemptAccepted, AttemptCancelling, AttemptSucceeded,
		AttemptFailed, AttemptCancelled, AttemptLost, AttemptSuperseded,
	}
}

// On is the status after t. A Conflict, and s itself, where t cannot happen to an attempt in status s.
func (s AttemptStatus) On(t AttemptTrigger) (AttemptStatus, error) {
	to := AttemptStatus("")
	switch t {
	case AttemptAccept:
		to = only(s, AttemptAccepted, AttemptOffered, AttemptAccepted)
		if s == AttemptCancelling { // taking it again does not undo the cancel
			to = AttemptCancelling
		}
	case AttemptCancel:
		to = only(s, AttemptCancelling, AttemptAccepted)
	case AttemptSucceed:
		to = only(s, AttemptSucceeded, AttemptAccepted, AttemptCancelling, AttemptLost)
	case AttemptFail:
		to = only(s, AttemptFailed, AttemptAccepted, AttemptCancelling, AttemptLost)
	case AttemptStop:
		to = only(s, AttemptCancelled, AttemptAccepted, AttemptCancelling, AttemptLost)
	case AttemptLose:
		to = only(s, AttemptLost, AttemptAccepted, AttemptCancelling)
	case AttemptSupersede:
		to = only(s, AttemptSuperseded, AttemptOffered)
	}
	if to == "" {
		return s, refused("attempt", string(s), string(t))
	}
	return to, nil
}

// only is to where s is one of from, else "".
func only[S ~string](s, to S, from ...S) S {
	for _, f := range from {
		if s == f {
			return to
		}
	}
	return ""
}

func refused(what, status, trigger string) error {
	return fault.New(fault.Conflict, what+"_status", "A %s that is %s cannot %s.", what, status, trigger).
		WithHint("Look at it again: it has moved on.")
}
