package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast.dev/holdfast/internal/access"
	"holdfast.dev/holdfast/internal/engine"
)

// pipes is a network inside a test's bubble, whose time is the test's own.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// patientServer serves one public route, /t, by h, and gives a connection to it and its log.
func patientServer(t *testing.T, h handlerFunc) (net.Conn, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer // written by the server's goroutines, read by the test when they wait
	a := New(Config{
		Engine: engine.New(engine.Config{}), Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now,
		BaseURL: &url.URL{Scheme: "http", Host: "t"}, Metrics: prometheus.NewRegistry(),
	})
	a.mux.Handle("POST /t", a.guard(Route{Method: "POST", Path: "/t", Permission: access.Public, maxBody: 1 << 30}, h))
	l := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(l) }()
	here, there := net.Pipe()
	l.accept <- there
	t.Cleanup(func() {
		here.Close()
		server.Close()
	})
	return here, &log
}

func TestStalledBodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		done := make(chan struct{})
		conn, _ := patientServer(t, func(_ http.ResponseWriter, r *http.Request, _ access.Actor) error {
			defer close(done)
			_, got = io.Copy(io.Discard, r.Body)
			return got
		})
		begun := time.Now()
		fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nhalf")
		<-done
		if e := net.Error(nil); !errors.As(got, &e) || !e.Timeout() {
			t.Errorf("reading a stalled body = %v, want a timeout", got)
		}
		if took := time.Since(begun); took != clientSlack {
			t.Errorf("it took %v, want %v", took, clientSlack)
		}
	})
}

func TestSlowBodyThatArrivesIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, step = 4 << 20, 64 << 10
		conn, _ := patientServer(t, func(w http.ResponseWriter, r *http.Request, _ access.Actor) error {
			n, err := io.Copy(io.Discard, r.Body)
			if err == nil {
				err = writeText(w, fmt.Sprint(n))
			}
			return err
		})
		begun := time.Now()
		go func() {
			fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n", size)
			for range size / step {
				time.Sleep(2 * time.Second) // of the bubble: 32 KiB a second
				_, _ = conn.Write(make([]byte, step))
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || string(body) != fmt.Sprint(size) {
			t.Errorf("answer = %d %s, want %d bytes taken", resp.StatusCode, body, size)
		}
		if took := time.Since(begun); took < 2*time.Minute {
			t.Errorf("it took %v, which shows nothing", took)
		}
	})
}

// TestLongPollOutlivesItsBodysDeadline: a read deadline that passes while a handler waits would cancel its request.
func TestLongPollOutlivesItsBodysDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := patientServer(t, func(w http.ResponseWriter, r *http.Request, _ access.Actor) error {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return err
			}
			if _, err := r.Body.Read(make([]byte, 1)); err != io.EOF { // decoders ask once more
				return fmt.Errorf("a read behind the end = %w, want EOF", err)
			}
			select {
			case <-r.Context().Done():
				return r.Context().Err()
			case <-time.After(10 * time.Minute):
			}
			return writeText(w, "waited")
		})
		fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(resp.Body); string(body) != "waited" {
			t.Errorf("answer = %d %q, want waited", resp.StatusCode, body)
		}
	})
}

func TestClientThatDoesNotReadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan error, 1)
		conn, _ := patientServer(t, func(w http.ResponseWriter, _ *http.Request, _ access.Actor) error {
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 32<<10))
			}
			done <- err
			return nil
		})
		begun := time.Now()
		fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
		<-done
		if took := time.Since(begun); took < clientSlack || took > 2*clientSlack {
			t.Errorf("the write ended after %v, want about %v", took, clientSlack)
		}
	})
}

func TestPanicIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, log := patientServer(t, func(http.ResponseWriter, *http.Request, access.Actor) error { panic("boom") })
		fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		synctest.Wait()
		if resp.StatusCode != 500 || !strings.Contains(string(body), `"code":"internal"`) || strings.Contains(string(body), "boom") {
			t.Errorf("answer = %d %s, want a problem that does not tell the cause", resp.StatusCode, body)
		}
		if !strings.Contains(log.String(), "panic=boom") || !strings.Contains(log.String(), resp.Header.Get("X-Request-Id")) {
			t.Errorf("the log does not tell the cause under the request's id:\n%s", log)
		}
	})
}

func TestHalfAnAnswerIsNoWholeOne(t *testing.T) {
	for name, h := range map[string]handlerFunc{
		"panic": func(w http.ResponseWriter, _ *http.Request, _ access.Actor) error {
			_ = writeText(w, "half")
			panic("boom")
		},
		"error": func(w http.ResponseWriter, _ *http.Request, _ access.Actor) error {
			_ = writeText(w, "half")
			return errors.New("the rest cannot be read")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, _ := patientServer(t, h)
				fmt.Fprintf(conn, "POST /t HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				if err == nil {
					t.Error("the client takes half an answer for a whole one")
				}
			})
		})
	}
}

func TestLimiterForgetsAndIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(func() time.Time { return now }, 3, time.Second)
	addr := netip.MustParseAddr("203.0.113.7")
	for i := range 3 {
		if l.wait(addr) != 0 {
			t.Fatalf("failure %d is limited already", i)
		}
		l.charge(addr)
	}
	if got := l.wait(addr); got != time.Second {
		t.Errorf("after 3 failures the wait is %v, want 1s", got)
	}
	for range 100 {
		l.charge(addr)
	}
	now = now.Add(101 * time.Second)
	if got := l.wait(addr); got != 0 {
		t.Errorf("after the failures are paid off the wait is %v", got)
	}
	for i := range 3 * limiterEntries {
		l.charge(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(l.paidTill) > limiterEntries {
		t.Errorf("it remembers %d addresses, at most %d are wanted", len(l.paidTill), limiterEntries)
	}
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:2")
	if network(a) != network(b) || network(a) == network(netip.MustParseAddr("2001:db8:0:1::1")) {
		t.Error("an IPv6 client is not its network of 64 bits")
	}
}

func TestPlacesRepeatNothingThatParsersQuote(t *testing.T) {
	got := places([]*huma.ErrorDetail{
		{Message: `parsing time "canary-4711" as "2006-01-02T15:04:05Z07:00"`, Location: "body.at", Value: "canary-4711"},
		{Message: `expected value to be one of "viewer, operator"`, Location: "body.role", Value: "canary-4711"},
		{Message: "unexpected property", Location: "body." + strings.Repeat("canary-4711", 20)},
	})
	want := `The request is not as it should be. body.at: it cannot be read. body.role: expected value to be one of "viewer, operator". body: unexpected property.`
	if got != want {
		t.Errorf("places = %s\nwant %s", got, want)
	}
}

func TestInputsThatHumaDoesNotSeeStopTheStart(t *testing.T) {
	type hidden struct {
		Limit int `query:"limit"`
	}
	type input struct{ hidden }
	defer func() {
		if recover() == nil {
			t.Error("an input with an unexported embedded part is taken")
		}
	}()
	refuseHidden(typeFor[input]())
}
