package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"holdfast.dev/holdfast/internal/fault"
)

// limiter allows each address a burst of failures and then one in every period. It forgets: nobody is locked out
// for longer than burst periods. Its memory is bounded whatever the addresses do.
type limiter struct {
	now    func() time.Time
	burst  int
	period time.Duration

	mu       sync.Mutex
	paidTill map[netip.Addr]time.Time // when the last failure is paid off
}

const limiterEntries = 10_000

func newLimiter(now func() time.Time, burst int, period time.Duration) *limiter {
	return &limiter{now: now, burst: burst, period: period, paidTill: map[netip.Addr]time.Time{}}
}

// wait is how long addr has to wait before it may try again; 0: not at all.
func (l *limiter) wait(addr netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	till, known := l.paidTill[addr]
	if !known {
		return 0
	}
	return max(0, till.Sub(l.now())-time.Duration(l.burst-1)*l.period)
}

// charge counts one failure of addr.
func (l *limiter) charge(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if _, known := l.paidTill[addr]; !known && len(l.paidTill) >= limiterEntries {
		l.sweep(now)
	}
	start := l.paidTill[addr]
	if start.Before(now) {
		start = now
	}
	l.paidTill[addr] = start.Add(l.period)
}

// sweep forgets who has paid off, and everybody when that frees nothing.
func (l *limiter) sweep(now time.Time) {
	for addr, t := range l.paidTill {
		if t.Before(now) {
			delete(l.paidTill, addr)
		}
	}
	if len(l.paidTill) >= limiterEntries {
		clear(l.paidTill)
	}
}

func tooManyWrong(wait time.Duration) error {
	e := fault.New(fault.TooMany, "too_many_attempts", "Too many wrong credentials came from this address.").
		WithHint("Wait a moment, then use a credential that is valid.")
	e.RetryAfter = wait
	return e
}

// clientAddr is where a request comes from: the peer, or what a trusted proxy says of it. Of an IPv6 address the
// network of 64 bits counts, since one client has all of it.
func (a *API) clientAddr(r *http.Request) netip.Addr {
	addr := peer(r.RemoteAddr)
	if !a.trusted(addr) {
		return network(addr)
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
		if !a.trusted(addr) {
			break
		}
	}
	return network(addr)
}

func (a *API) trusted(addr netip.Addr) bool {
	for _, p := range a.proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func peer(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
