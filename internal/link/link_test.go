package link

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/redact"
)

func TestBeginKeepsItsPasswordOnTheWireAndNowhereElse(t *testing.T) {
	want := Begin{
		Attempt: "att_1", Apply: true, Inputs: json.RawMessage(`{"a":1}`), TimeoutSeconds: 5,
		Plan: &Approved{Digest: "sha256:x", View: json.RawMessage(`{}`)}, Password: redact.NewSecret("canary-password"),
	}
	body, err := json.Marshal(Message{Begin: &want})
	if err != nil {
		t.Fatal(err)
	}
	m, err := decode(body)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Begin.Password.Reveal(); got != "canary-password" {
		t.Errorf("password after the wire: got %q", got)
	}
	m.Begin.Password, want.Password = redact.Secret{}, redact.Secret{}
	if !reflect.DeepEqual(*m.Begin, want) {
		t.Errorf("begin after the wire:\n got %+v\nwant %+v", *m.Begin, want)
	}
	if printed := fmt.Sprintf("%v %+v %#v", want, want, want); strings.Contains(printed, "canary") {
		t.Errorf("printing a Begin shows its password: %s", printed)
	}
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"end between frames":   {nil, io.EOF},
		"end in the prefix":    {[]byte{0, 0}, io.ErrUnexpectedEOF},
		"end in the body":      {[]byte{0, 0, 0, 9, '{'}, io.ErrUnexpectedEOF},
		"empty":                {[]byte{0, 0, 0, 0}, ErrFrame},
		"claims too much":      {[]byte{0xff, 0xff, 0xff, 0xff, '{'}, ErrFrame},
		"one byte over":        {[]byte{1, 0, 0, 1, '{'}, ErrFrame},
		"claims much, has few": {[]byte{1, 0, 0, 0, '{'}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readFrame(bytes.NewReader(c.stream)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := writeFrame(io.Discard, make([]byte, MaxFrame+1)); !errors.Is(err, ErrFrame) {
		t.Errorf("sending a frame over the limit: got %v, want ErrFrame", err)
	}
}

func TestMessagesSayExactlyOneThing(t *testing.T) {
	for _, body := range []string{`{}`, `{"unknown":{}}`, `{"ask":{},"cleaned":{}}`, `[]`, `null`, `{"ask":1}`, `{"begin":7}`} {
		if m, err := decode([]byte(body)); !errors.Is(err, ErrFrame) {
			t.Errorf("decode(%s): got %+v, %v, want ErrFrame", body, m, err)
		}
	}
}

func TestConversationOverALongPath(t *testing.T) {
	// A path of more than 107 bytes does not fit a socket's address.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, done, err := Listen(dir, WorkerSocket, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if info, err := os.Stat(filepath.Join(dir, WorkerSocket)); err != nil || info.Mode().Perm() != 0o660 {
		t.Fatalf("the socket: got %v, %v, want mode 0660", info, err)
	}
	answered := make(chan error, 1)
	go func() {
		c, err := l.AcceptUnix()
		if err != nil {
			answered <- err
			return
		}
		peer := NewConn(c)
		m, err := peer.Receive()
		if err == nil {
			err = peer.Send(Message{Log: &Log{Text: strings.Repeat(m.Hello.Version, 100_000)}})
		}
		answered <- errors.Join(err, peer.Close())
	}()
	c, err := Dial(dir, WorkerSocket, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	conn := NewConn(c)
	if err := conn.Send(Message{Hello: &Hello{Version: "1.2.3"}}); err != nil {
		t.Fatal(err)
	}
	m, err := conn.Receive()
	if err != nil || m.Log == nil || len(m.Log.Text) != 500_000 {
		t.Errorf("answer: got %+v, %v", m.Log != nil, err)
	}
	if _, err := conn.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: got %v, want io.EOF", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	done()
	if _, err := os.Stat(filepath.Join(dir, WorkerSocket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after closing, the socket: got %v, want none", err)
	}
}

func TestDialRefusesAnotherUser(t *testing.T) {
	dir := t.TempDir()
	l, done, err := Listen(dir, WorkerSocket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			defer func(c *net.UnixConn) { _ = c.Close() }(c)
		}
	}()
	if c, err := Dial(dir, WorkerSocket, os.Getuid()+1); !errors.Is(err, ErrPeer) {
		t.Errorf("dial expecting another user: got %v, %v, want ErrPeer", c, err)
	}
}

func FuzzReadFrame(f *testing.F) {
	var whole bytes.Buffer
	_ = writeFrame(&whole, []byte(`{"stage":{"stage":"plan"}}`))
	f.Add(whole.Bytes())
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		for {
			body, err := readFrame(r)
			if err != nil {
				return
			}
			m, err := decode(body)
			if err != nil {
				continue
			}
			again, err := json.Marshal(m)
			if err != nil {
				t.Fatalf("a message that was read cannot be sent: %v", err)
			}
			back, err := decode(again)
			if err != nil || back.kinds() != 1 {
				t.Fatalf("%s does not come back: %v", again, err)
			}
		}
	})
}
