package store

import "sync"

// hub passes signals to the subscribers of this process.
type hub struct {
	mu     sync.Mutex
	topics map[string]map[chan struct{}]struct{}
}

func newHub() *hub { return &hub{topics: map[string]map[chan struct{}]struct{}{}} }

func (h *hub) subscribe(topic string) (<-chan struct{}, func()) {
	// Room for one: a signal that finds another one waiting says nothing new.
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[topic] == nil {
		h.topics[topic] = map[chan struct{}]struct{}{}
	}
	h.topics[topic][c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.topics[topic], c)
		if len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}
}

func (h *hub) signal(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wake(h.topics[topic])
}

// signalAll is for when signals may have been missed.
func (h *hub) signalAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subscribers := range h.topics {
		wake(subscribers)
	}
}

func wake(subscribers map[chan struct{}]struct{}) {
	for c := range subscribers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
