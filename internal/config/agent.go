package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// Broker is the settings of the half of an agent that has the token.
type Broker struct {
	PlatformURL      *url.URL
	Token            redact.Secret
	WorkDir          string // absolute
	WorkerUID        int64
	HealthAddr       string // empty: no probes are served
	InterruptGrace   time.Duration
	StateReadTimeout time.Duration
	AllowInline      bool
	Unisolated       bool
	LogLevel         string
	LogFormat        string
}

// BrokerSettings is the table of a broker's settings, kept in c.
func BrokerSettings(c *Broker) *Set {
	s := &Set{}
	Add(s, &c.PlatformURL, "PLATFORM_URL", "", "Required. Where the server is, e.g. https://holdfast.example.com.", HTTPURL)
	AddSecret(s, &c.Token, "AGENT_TOKEN", "Required. The agent's token, as it was issued.", nil)
	Add(s, &c.WorkDir, "WORK_DIR", "", "Required. Folder of the attempts, shared with the worker; has to be there and be writable.", workDir)
	Add(s, &c.WorkerUID, "WORKER_UID", "1001", "User the worker runs as.", Integer(1, 1<<31-1))
	Add(s, &c.HealthAddr, "HEALTH_ADDR", ":8091", "Address and port of /healthz and /readyz; off for none.", healthAddr)
	Add(s, &c.InterruptGrace, "INTERRUPT_GRACE_SECONDS", "150", graceHelp, Every(time.Second, 1, 3600))
	Add(s, &c.StateReadTimeout, "STATE_READ_TIMEOUT", "5m", "How long a stopping agent goes on saving state, e.g. 90s or 5m.", duration(time.Second, time.Hour))
	Add(s, &c.AllowInline, "ALLOW_INLINE_SOURCES", "false", "Whether sources packed by holdfast up are run.", Bool)
	Add(s, &c.Unisolated, "DEVELOPMENT_UNISOLATED", "false", unisolatedHelp, Bool)
	logging(s, &c.LogLevel, &c.LogFormat)
	return s
}

// LoadBroker reads a broker's settings.
func LoadBroker(environ []string) (c Broker, warnings []string, err error) {
	warnings, err = BrokerSettings(&c).Load(environ, others()...)
	if err != nil {
		return c, warnings, err
	}
	switch {
	case c.PlatformURL == nil:
		err = required("PLATFORM_URL")
	case c.Token.IsZero():
		err = required("AGENT_TOKEN").WithHint("It is shown once, when an agent is issued; HOLDFAST_AGENT_TOKEN_FILE may name a file that holds it.")
	case c.WorkDir == "":
		err = required("WORK_DIR")
	}
	return c, warnings, err
}

// Worker is the settings of the half of an agent that runs the tool.
type Worker struct {
	WorkDir        string // absolute
	TofuBin        string // a path, or a name on PATH
	BrokerUID      int64
	ProviderMirror string // empty: providers come from their registries
	InterruptGrace time.Duration
	Unisolated     bool
	LogLevel       string
	LogFormat      string
}

// WorkerSettings is the table of a worker's settings, kept in c.
func WorkerSettings(c *Worker) *Set {
	s := &Set{}
	Add(s, &c.WorkDir, "WORK_DIR", "", "Required. Folder of the attempts, shared with the broker.", workDir)
	Add(s, &c.TofuBin, "TOFU_BIN", "tofu", "The OpenTofu or Terraform to run: a path, or a name on PATH.", Text)
	Add(s, &c.BrokerUID, "BROKER_UID", "1000", "User the broker runs as.", Integer(1, 1<<31-1))
	Add(s, &c.ProviderMirror, "PROVIDER_MIRROR", "", "Folder of providers, laid out as a filesystem mirror; with it nothing is downloaded.", workDir)
	Add(s, &c.InterruptGrace, "INTERRUPT_GRACE_SECONDS", "150", graceHelp, Every(time.Second, 1, 3600))
	Add(s, &c.Unisolated, "DEVELOPMENT_UNISOLATED", "false", unisolatedHelp, Bool)
	logging(s, &c.LogLevel, &c.LogFormat)
	return s
}

// LoadWorker reads a worker's settings. It refuses an environment with what only the broker may have.
func LoadWorker(environ []string) (c Worker, warnings []string, err error) {
	warnings, err = WorkerSettings(&c).Load(environ, others()...)
	if err != nil {
		return c, warnings, err
	}
	if name := foreign(environ); name != "" {
		return c, warnings, Invalid("%s is set for the worker; what a template runs could read it.", name).
			WithHint("Set it for the broker alone.")
	}
	if c.WorkDir == "" {
		return c, warnings, required("WORK_DIR")
	}
	return c, warnings, nil
}

const (
	graceHelp      = "Seconds between the interrupt of a command and its kill. A kill loses the object that is being created."
	unisolatedHelp = "1 allows broker and worker to share a user: for development on one's own machine."
)

func required(name string) *fault.Error { return Invalid("%s%s is required.", Prefix, name) }

// foreign names a variable of environ that only a broker may have.
func foreign(environ []string) string {
	names := [...]string{Prefix + "AGENT_TOKEN", Prefix + "AGENT_TOKEN_FILE", Prefix + "PLATFORM_URL"}
	for _, line := range environ {
		for _, name := range names {
			if len(line) > len(name) && line[:len(name)] == name && line[len(name)] == '=' {
				return name
			}
		}
	}
	return ""
}

func workDir(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return filepath.Abs(s)
}

func healthAddr(s string) (string, error) {
	if s == "off" {
		return "", nil
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		return "", fmt.Errorf("an address such as :8091 or 127.0.0.1:8091, or off, is needed")
	}
	return s, nil
}

func duration(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("a duration from %v to %v, such as 90s or 5m, is needed", least, most)
		}
		return d, nil
	}
}
