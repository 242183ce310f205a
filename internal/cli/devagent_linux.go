package cli

import "syscall"

// agentProcess puts the agent into a group of its own, since a Ctrl-C in the terminal is for this program, which tells
// the agent; and has the kernel end it where this program is killed.
func agentProcess() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
