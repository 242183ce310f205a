package link

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// KeepDescriptors makes every descriptor that this process was started with, but the standard ones, end where it starts
// another program. A token that came as /dev/fd/3 would otherwise be there for everything below, too.
func KeepDescriptors() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open descriptors: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("list the open descriptors: %w", err)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
