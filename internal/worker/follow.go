package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// consumed is how many bytes are read before their place on the disk is given back: a command may print for hours.
const consumed = 4 << 20

// follower reads a file while a command appends to it. Reads wait for more until the command has ended.
type follower struct {
	file    *os.File
	ended   <-chan struct{}
	changed chan struct{}
	notify  *os.File // inotify; nil where the system has no more to give
	at      int64
	freed   int64
}

// follow begins to follow file; ended is closed when nothing writes to it any more. Close it.
func follow(file *os.File, ended <-chan struct{}) *follower {
	f := &follower{file: file, ended: ended, changed: make(chan struct{}, 1)}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return f
	}
	f.notify = os.NewFile(uintptr(fd), "inotify")
	// The file has no name any more, but its descriptor has one.
	if _, err := unix.InotifyAddWatch(fd, path.Join("/proc/self/fd", strconv.Itoa(int(file.Fd()))), unix.IN_MODIFY); err != nil {
		_ = f.notify.Close()
		f.notify = nil
		return f
	}
	go f.listen(f.notify)
	return f
}

func (f *follower) listen(notify *os.File) {
	buf := make([]byte, 4096)
	for {
		if _, err := notify.Read(buf); err != nil {
			return
		}
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
}

// Read gives what is there, else waits.
func (f *follower) Read(p []byte) (int, error) {
	for over := false; ; {
		n, err := f.file.ReadAt(p, f.at)
		f.at += int64(n)
		switch {
		case n > 0:
			f.free()
			return n, nil
		case err != nil && !errors.Is(err, io.EOF):
			return 0, fmt.Errorf("follow a command's output: %w", err)
		case over:
			return 0, io.EOF
		}
		over = f.wait()
	}
}

// wait reports whether the command has ended: then one more look is to be the last.
func (f *follower) wait() bool {
	poll := time.Second // only in case a notice is lost
	if f.notify == nil {
		poll = 5 * time.Millisecond
	}
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-f.ended:
		return true
	case <-f.changed:
	case <-t.C:
	}
	return false
}

// free gives the disk back what was read. Where the file system cannot, the file just grows.
func (f *follower) free() {
	if f.at-f.freed < consumed {
		return
	}
	_ = unix.Fallocate(int(f.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, f.freed, f.at-f.freed)
	f.freed = f.at
}

// Close ends the following.
func (f *follower) Close() {
	if f.notify != nil {
		// The kernel takes 10 ms and more to let go of a watch; nobody has to wait for that.
		go func() { _ = f.notify.Close() }()
	}
}
