package cli

import (
	"io"
	"os"
	"strings"
	"time"
)

// Env is all of the outside world that commands touch. All fields but Interrupts are required.
type Env struct {
	Args       []string // without the program's name
	Environ    []string // NAME=value
	Stdin      io.Reader
	Stdout     io.Writer // where it is an *os.File on a terminal, output has colours and live lines
	Stderr     io.Writer
	Interrupts <-chan os.Signal // SIGINT and SIGTERM; most commands end on the first
	Version    string           // of this program
	Now        func() time.Time
}

// lookup is the value of an environment variable; the last one counts, as in a shell.
func (e Env) lookup(name string) string {
	value := ""
	for _, line := range e.Environ {
		if n, v, ok := strings.Cut(line, "="); ok && n == name {
			value = v
		}
	}
	return value
}
