package cli

import (
	"testing"

	"holdfast.dev/holdfast/internal/api"
)

func TestRewrappedView(t *testing.T) {
	golden(t, "rewrapped", func(s *screen) {
		showRewrapped(s, rewrapResult{
			Examined: 12, Moved: 10,
			Failed: []api.RewrapFailure{{
				Object: "wri_01jzv3k9q2c8w4n6m0r5t7x1ab", Kind: "state", Key: api.Key{Kind: "platform", Name: "0a0b0c0d", Version: "1"},
				Code: "key_missing", Detail: "This was sealed with the platform key 0a0b0c0d, which this server does not have." + evil,
			}},
			Keys: []api.KeyUse{{Kind: "platform", Name: "0a0b0c0d", Version: "1", Objects: 1}, {Kind: "transit", Name: "MAIN/holdfast-org_1", Version: "3", Objects: 11}},
		})
	})
}
