package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that does not arrive whole, or not as HTTP sends bodies, is its sender's doing: 400, nothing is done, and the
// server's log has no failure.
func TestBodyThatDoesNotArriveWhole(t *testing.T) {
	s := newServer(t)
	const lock = `{"ID":"a"}`
	for what, c := range map[string]struct{ request, body string }{
		"a save, no chunk at all":                  {"POST /api/tf-states/net/state", "\n"},
		"a save, cut after a chunk":                {"POST /api/tf-states/net/state", "d\r\n" + `{"version":4}` + "\r\nzz\r\n"},
		"a lock, cut after its document":           {"LOCK /api/tf-states/net/lock", fmt.Sprintf("%x\r\n%s\r\nzz\r\n", len(lock), lock)},
		"a decoded route, cut after its document":  {"POST /api/accounts", "10\r\n" + `{"name":"local"}` + "\r\nzz\r\n"},
		"a decoded route, cut within its document": {"POST /api/accounts", "6\r\n" + `{"name` + "\r\nzz\r\n"},
		"a decoded route that needs none":          {"POST /api/tf-states/net/force-unlock", "zz\r\n"},
	} {
		t.Run(what, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, c.request+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+s.admin+
				"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+c.body); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%d %s, %v; want 400", resp.StatusCode, body, err)
			}
		})
	}
	if said := s.log.String(); strings.Contains(said, "level=ERROR") {
		t.Errorf("the log has a failure of the server's:\n%s", said)
	}
	for _, path := range []string{"/api/tf-states", "/api/accounts"} {
		if a := s.as(t, s.admin, "GET", path, nil); !strings.Contains(string(a.body), `"items":[]`) {
			t.Errorf("%s has %s; want nothing done", path, a.body)
		}
	}
}
