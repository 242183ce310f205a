package tofu

import "fmt"

// ExitKind tells the ways a command ends apart.
type ExitKind string

// The ways a command ends. "Interrupted" is not among them: after one interrupt the tool exits with status 1, or 0 when it
// was already done, so who sent the interrupt has to remember it.
const (
	ExitOK      ExitKind = "ok"
	ExitFailed  ExitKind = "failed"  // it said why; state is saved and the lock released
	ExitCrashed ExitKind = "crashed" // it fell over by itself; the lock may stay
	ExitKilled  ExitKind = "killed"  // a signal ended it: nothing was saved, the lock stays
)

// Exit is how a command ended.
type Exit struct {
	Kind   ExitKind `json:"kind"`
	Status int      `json:"status"`           // exit status, -1 with a signal
	Signal int      `json:"signal,omitempty"` // number, also when a shell or a container told it as 128+n
}

// Statuses with a meaning of their own.
const (
	statusQuit  = 2  // SIGQUIT makes the runtime print its stacks and exit so
	statusPanic = 11 // the tool's own crash handler
	signalBase  = 128
	lastSignal  = 64
)

// Classify reads an exit status and a signal number as the system tells them; signal is 0 without one.
func Classify(status, signal int) Exit {
	if signal == 0 && status > signalBase && status <= signalBase+lastSignal {
		signal, status = status-signalBase, -1
	}
	switch {
	case signal != 0:
		return Exit{ExitKilled, -1, signal}
	case status == 0:
		return Exit{ExitOK, 0, 0}
	case status == statusPanic, status == statusQuit:
		return Exit{ExitCrashed, status, 0}
	}
	return Exit{ExitFailed, status, 0}
}

func (e Exit) String() string {
	switch e.Kind {
	case ExitOK:
		return "finished"
	case ExitKilled:
		return fmt.Sprintf("was ended by signal %d%s", e.Signal, signalName(e.Signal))
	case ExitCrashed:
		return fmt.Sprintf("crashed with exit status %d", e.Status)
	}
	return fmt.Sprintf("failed with exit status %d", e.Status)
}

func signalName(n int) string {
	switch n {
	case 1:
		return " (hang-up)"
	case 6:
		return " (abort)"
	case 9:
		return " (killed: out of memory, or past its time limit)"
	case 11:
		return " (segmentation fault)"
	case 13:
		return " (its output was closed)"
	case 15:
		return " (terminated)"
	}
	return ""
}
