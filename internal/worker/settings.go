package worker

import (
	"os/exec"
	"path/filepath"
	"time"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/redact"
)

// Settings of a worker.
type Settings struct {
	WorkDir        string        // absolute, shared with the broker
	TofuBin        string        // absolute
	BrokerUID      int           // who may connect
	ProviderMirror string        // directory of providers; empty: from their registries
	InterruptGrace time.Duration // between the interrupt of a command and its kill
	Unisolated     bool          // shares its user with broker and people: for development
}

// LoadSettings takes a worker's settings from what was configured, for a process of user uid.
func LoadSettings(c config.Worker, uid int) (Settings, error) {
	found, err := exec.LookPath(c.TofuBin)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return Settings{}, config.Invalid("HOLDFAST_TOFU_BIN: there is no program %q to run.", redact.Plain(c.TofuBin)).
			WithHint("Install OpenTofu, or name its path in HOLDFAST_TOFU_BIN.")
	}
	s := Settings{
		WorkDir: c.WorkDir, TofuBin: found, BrokerUID: int(c.BrokerUID), ProviderMirror: c.ProviderMirror,
		InterruptGrace: c.InterruptGrace, Unisolated: c.Unisolated,
	}
	if s.Unisolated {
		s.BrokerUID = uid
	}
	return s, nil
}
