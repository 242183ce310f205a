package transit

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// Bounds of the keys that are kept unwrapped. A page of a state's history reads the same few versions over and over.
const (
	cacheFor  = 30 * time.Second
	cacheKeys = 1000
)

// place is where a data key is kept: a digest of everything it was opened with, so that nothing else finds it.
type place [sha256.Size]byte

func placeOf(name string, bound [sha256.Size]byte, wrapped []byte) (p place) {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(name)))
	h.Write(n[:])
	h.Write([]byte(name))
	h.Write(bound[:])
	h.Write(wrapped)
	h.Sum(p[:0])
	return p
}

// cache keeps opened data keys for a short time. A key that leaves it is overwritten.
type cache struct {
	now func() time.Time

	mu    sync.Mutex
	keys  map[place]*kept
	order []place // by age, oldest first
	timer *time.Timer
}

type kept struct {
	key   []byte
	until time.Time
}

func newCache(now func() time.Time) *cache { return &cache{now: now, keys: map[place]*kept{}} }

// get gives a copy, or nil.
func (c *cache) get(p place) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[p]
	if k == nil || !c.now().Before(k.until) {
		return nil
	}
	return append([]byte(nil), k.key...)
}

// put keeps a copy.
func (c *cache) put(p place, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[p] != nil {
		return // opened twice at once; the first one's time counts
	}
	if len(c.order) >= cacheKeys {
		c.drop(1)
	}
	c.keys[p] = &kept{key: append([]byte(nil), key...), until: c.now().Add(cacheFor)}
	c.order = append(c.order, p)
	if c.timer == nil {
		c.timer = time.AfterFunc(cacheFor, c.expire)
	}
}

// expire drops what is too old, also where nobody asks any more.
func (c *cache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, now := 0, c.now()
	for n < len(c.order) && !now.Before(c.keys[c.order[n]].until) {
		n++
	}
	c.drop(n)
	c.timer = nil
	if len(c.order) > 0 {
		c.timer = time.AfterFunc(max(c.keys[c.order[0]].until.Sub(now), time.Second), c.expire)
	}
}

// drop overwrites and forgets the n oldest.
func (c *cache) drop(n int) {
	for _, p := range c.order[:n] {
		clear(c.keys[p].key)
		delete(c.keys, p)
	}
	c.order = append(c.order[:0], c.order[n:]...)
}
