package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/backup"
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

// A backup file may come from anybody: what it says must not steer a terminal.
func TestBackupViews(t *testing.T) {
	m := madeBackup{
		File: "holdfast.backup", Size: 3 << 20, Rows: 12_345,
		Header: backup.Header{
			ID: "bak_01jzv3k9q2c8w4n6m0r5t7x1ab" + evil, CreatedAt: viewNow, Holdfast: "1.2.3" + evil, Schema: 3, States: 42, Elsewhere: 7,
			Keys:  []backup.KeyUse{{Kind: "platform", Name: "0a0b0c0d", Version: "1", Objects: 100}, {Kind: "transit", Name: evil, Version: "3", Objects: 11}},
			Audit: []backup.Anchor{{Organization: "default" + evil, Seq: 28, Hash: strings.Repeat("ab", 32)}},
		},
	}
	golden(t, "backup", func(s *screen) { showBackup(s, m) })
	m.Elsewhere, m.Audit = 0, nil
	golden(t, "restored", func(s *screen) { showRestored(s, m) })
	golden(t, "after-restore", func(s *screen) {
		showSettled(s, settled{
			Done: true, AttemptsLost: 2,
			RunsEnded:   []settledRun{{ID: "run_1", Stack: "shop", Kind: "deploy", Status: "discarded"}},
			RunsWaiting: []settledRun{{ID: "run_2", Stack: evil, Kind: "destroy", Status: "awaiting_approval"}},
			Locks:       []settledLock{{Organization: "default", State: "shop.main", ID: "2655019c", Kind: "user", Holder: evil, TakenAt: "2026-03-04 11:00:00 UTC", Unlock: "holdfast state unlock shop.main --id 2655019c --force"}},
			Anchors:     []settledAnchor{{Organization: evil, Anchor: "29:cd"}},
		})
	})
	golden(t, "after-restore-none", func(s *screen) { showSettled(s, settled{}) })
	golden(t, "backup-states", func(s *screen) {
		showBackupStates(s, nil)
		showBackupStates(s, []app.BackupState{{Organization: "default", Name: "shop.main", Version: 3, Versions: 3, Size: 1536, UpdatedAt: viewNow}, {Organization: evil, Name: evil, Deleted: true, UpdatedAt: viewNow}})
	})
	golden(t, "backup-versions", func(s *screen) {
		showBackupVersions(s, nil)
		showBackupVersions(s, []app.BackupVersion{
			{Version: 1, Source: "write", Size: 10, CreatedAt: viewNow, KeyKind: "platform", KeyName: "0a0b0c0d", KeyVersion: "1", Quarantined: true},
			{Version: 2, Source: evil, Current: true, Size: 10, CreatedAt: viewNow, KeyKind: "transit", KeyName: evil, KeyVersion: "3"},
		})
	})
}

// On a terminal progress is one line that is written over, not more than five times a second; elsewhere it is nothing.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := viewNow
	p := &progress{s: &screen{w: &b}, now: func() time.Time { return now }}
	p.show("writing", 1)
	if b.Len() > 0 {
		t.Errorf("in a pipe progress says %q", b.String())
	}
	p.s.columns = func() int { return 80 }
	for i := range 5 {
		p.show("writing", int64(i))
		now = now.Add(100 * time.Millisecond)
	}
	if got, want := b.String(), "writing: 0 rows\n\x1b[1A\r\x1b[Jwriting: 2 rows\n\x1b[1A\r\x1b[Jwriting: 4 rows\n"; got != want {
		t.Errorf("progress says %q, want %q", got, want)
	}
}
