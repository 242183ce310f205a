//go:build !linux

package cli

import "syscall"

// agentProcess puts the agent into a group of its own, since a Ctrl-C in the terminal is for this program, which tells
// the agent.
func agentProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
