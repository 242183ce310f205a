package link

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// sendTimeout bounds one Send: a peer that does not read is as good as gone.
const sendTimeout = 30 * time.Second

// Conn carries messages. Send may be used by several goroutines, Receive by one.
type Conn struct {
	conn *net.UnixConn
	in   *bufio.Reader
	send sync.Mutex
}

// NewConn makes a Conn of a connection whose peer was checked.
func NewConn(c *net.UnixConn) *Conn { return &Conn{conn: c, in: bufio.NewReaderSize(c, 64*1024)} }

// Send sends one message. After an error the connection is of no more use.
func (c *Conn) Send(m Message) error {
	if n := m.kinds(); n != 1 {
		return fmt.Errorf("send a message: it says %d things, exactly 1 is allowed", n)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	c.send.Lock()
	defer c.send.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	if err := writeFrame(c.conn, body); err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	return nil
}

// Receive waits for the next message, without a limit: Close ends the wait. The peer's orderly end is io.EOF.
func (c *Conn) Receive() (Message, error) {
	body, err := readFrame(c.in)
	if err != nil {
		return Message{}, err
	}
	return decode(body)
}

// ReceiveWithin is Receive with a limit.
func (c *Conn) ReceiveWithin(limit time.Duration) (Message, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return Message{}, fmt.Errorf("receive a message: %w", err)
	}
	m, err := c.Receive()
	if err == nil {
		err = c.conn.SetReadDeadline(time.Time{})
	}
	return m, err
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// PeerUID asks the kernel which user made the other end of the connection.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask for the peer's user: %w", err)
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, inner); err != nil {
		return 0, fmt.Errorf("ask for the peer's user: %w", err)
	}
	return int(cred.Uid), nil
}

// Listen makes a socket called name in dir, with mode. A socket's address has room for 107 bytes, so the directory is
// reached through its descriptor, which is what the returned func closes; it removes the socket, too.
func Listen(dir, name string, mode os.FileMode) (*net.UnixListener, func(), error) {
	d, address, err := short(dir, name)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		_ = d.Close()
		return nil, nil, fmt.Errorf("listen on %s: %w", path.Join(dir, name), err)
	}
	done := func() { _ = l.Close(); _ = d.Close() }
	if err := os.Chmod(address, mode); err != nil {
		done()
		return nil, nil, fmt.Errorf("set the mode of %s: %w", path.Join(dir, name), err)
	}
	return l, done, nil
}

// Dial connects to the socket called name in dir and checks that uid listens there.
func Dial(dir, name string, uid int) (*net.UnixConn, error) {
	d, address, err := short(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path.Join(dir, name), err)
	}
	if err := CheckPeer(c, uid); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", path.Join(dir, name), err)
	}
	return c, nil
}

// ErrPeer is wrapped by the error about a peer that is another user than expected.
var ErrPeer = errors.New("the other end is another user")

// CheckPeer fails unless uid made the other end.
func CheckPeer(c *net.UnixConn, uid int) error {
	got, err := PeerUID(c)
	if err != nil {
		return err
	}
	if got != uid {
		return fmt.Errorf("%w: user %d, expected %d", ErrPeer, got, uid)
	}
	return nil
}

func short(dir, name string) (*os.File, string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	return d, path.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name), nil
}
