package transit

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestCacheForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Now)
		at := func(i int) place { return placeOf(fmt.Sprint(i), [sha256.Size]byte{}, nil) }
		held := make([][]byte, 0, cacheKeys+1)
		for i := range cacheKeys + 1 {
			c.put(at(i), []byte{1, 2, 3})
			held = append(held, c.keys[at(i)].key)
		}
		if len(c.keys) != cacheKeys || c.get(at(0)) != nil || c.get(at(1)) == nil || held[0][0] != 0 {
			t.Errorf("of %d keys %d are kept, the oldest is %v, want it gone and overwritten", cacheKeys+1, len(c.keys), held[0])
		}
		time.Sleep(cacheFor) // the bubble's time
		synctest.Wait()
		if len(c.keys) != 0 || len(c.order) != 0 {
			t.Errorf("after %s %d keys are kept", cacheFor, len(c.keys))
		}
		for i, key := range held {
			if key[0] != 0 {
				t.Fatalf("key %d was forgotten and not overwritten", i)
			}
		}
		c.put(at(1), []byte{1})
		time.Sleep(cacheFor + time.Second)
		synctest.Wait()
		if len(c.keys) != 0 {
			t.Error("a key that came later is never forgotten")
		}
	})
}
