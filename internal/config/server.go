package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/redact"
)

// Server is the settings of the server.
type Server struct {
	ListenAddr     string
	BaseURL        *url.URL // nil: http:// and the address it listens on
	DataDir        string
	DatabaseURL    redact.Secret // "sqlite:PATH" or "postgres://…"; may hold a password
	Blob           Blob
	BootstrapToken redact.Secret // zero: a sign-in link is printed
	TrustedProxies []netip.Prefix
	LogLevel       string
	LogFormat      string

	EncryptionKey     redact.Secret
	OldEncryptionKeys []redact.Secret
	KeyBackend        string                   // tag of the SecretBackend whose keys seal; "" for the platform key
	SecretBackends    map[string]SecretBackend // by tag
	StateMaxBytes     int64
	KeepVersions      int64
	DeletedKeep       time.Duration
	RunEndGrace       time.Duration

	HeartbeatTimeout time.Duration
	StepTimeout      time.Duration
	PlanMaxAge       time.Duration // 0: plans do not age
}

// ServerSettings is the table of the server's settings, kept in c.
func ServerSettings(c *Server) *Set {
	s := &Set{}
	Add(s, &c.ListenAddr, "LISTEN_ADDR", "127.0.0.1:8480", "Address and port to listen on. Put a proxy that speaks TLS before it for anything but this machine.", listenAddr)
	Add(s, &c.BaseURL, "BASE_URL", "", "Where browsers and agents reach the server; default http:// and the listen address.", HTTPURL)
	Add(s, &c.DataDir, "DATA_DIR", "/var/lib/holdfast", "Folder of the embedded database; has to be there and be writable.", Text)
	AddSecret(s, &c.DatabaseURL, "DATABASE_URL", "sqlite:FILE, or postgres://… for more than one server; default a file holdfast.db in the data folder.", databaseURL)
	addBlob(s, &c.Blob)
	AddSecret(s, &c.BootstrapToken, "BOOTSTRAP_TOKEN", "Token of the first administrator, 32 characters or more; used at the first start and never again. Without it the first start prints a sign-in link.", bootstrapToken)
	Add(s, &c.TrustedProxies, "TRUSTED_PROXIES", "", "Addresses or networks of proxies whose X-Forwarded-For is believed, separated by commas.", Prefixes)
	logging(s, &c.LogLevel, &c.LogFormat)
	AddSecret(s, &c.EncryptionKey, "TF_STATE_ENCRYPTION_KEY", "The platform key: 32 random bytes in base64 (openssl rand -base64 32). Keep a copy: without it no state can be read.", nil)
	var old redact.Secret
	s.settings = append(s.settings, oldKeys(&old, &c.OldEncryptionKeys))
	addKeyBackend(s, c)
	Add(s, &c.StateMaxBytes, "TF_STATE_MAX_BYTES", "33554432", "Largest state document, in bytes; at most 134217728.", Integer(1024, 134217728))
	Add(s, &c.KeepVersions, "TF_STATE_KEEP_VERSIONS", "50", "How many versions of a state are kept.", Integer(1, 1_000_000))
	Add(s, &c.DeletedKeep, "TF_STATE_DELETED_KEEP_DAYS", "7", "Days for which a deleted state can be restored.", Every(24*time.Hour, 0, 3650))
	Add(s, &c.RunEndGrace, "TF_STATE_RUN_END_GRACE_SECONDS", "600", "Seconds for which the lock of a run that ended is kept.", Every(time.Second, 0, 86400))
	Add(s, &c.HeartbeatTimeout, "HEARTBEAT_TIMEOUT_SECONDS", "120", "Seconds without a sign of life after which an attempt is lost.", Every(time.Second, 5, 86400))
	Add(s, &c.StepTimeout, "TOFU_TIMEOUT_MINUTES", "45", "Minutes that one tofu command may take.", Every(time.Minute, 1, 1440))
	Add(s, &c.PlanMaxAge, "PLAN_MAX_AGE_HOURS", "0", "Hours after which a plan that waits for approval is discarded; 0: never.", Every(time.Hour, 0, 8760))
	return s
}

// LoadServer reads the server's settings and fills the defaults that depend on others in.
func LoadServer(environ []string) (c Server, warnings []string, err error) {
	warnings, err = ServerSettings(&c).Load(environ, others()...)
	if err != nil {
		return c, warnings, err
	}
	if c.DatabaseURL.IsZero() {
		c.DatabaseURL = redact.NewSecret("sqlite:" + filepath.Join(c.DataDir, "holdfast.db"))
	}
	return c, warnings, nil
}

// others are settings of programs that may share an environment with the one being read.
func others() []*Set {
	return []*Set{ServerSettings(&Server{}), ClientSettings(&Client{}), BrokerSettings(&Broker{}), WorkerSettings(&Worker{})}
}

// oldKeys is one secret that holds several.
func oldKeys(text *redact.Secret, keys *[]redact.Secret) Setting {
	s := &Set{}
	AddSecret(s, text, "TF_STATE_OLD_ENCRYPTION_KEYS", "Earlier platform keys, separated by commas, which still open what they sealed.", nil)
	x := s.settings[0]
	take := x.set
	x.set = func(value string) error {
		*keys = nil
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*keys = append(*keys, redact.NewSecret(part))
			}
		}
		return take(value)
	}
	return x
}

func listenAddr(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, "/ ") {
		return "", fmt.Errorf("an address such as 127.0.0.1:8480 is needed")
	}
	if _, err := Integer(0, 65535)(port); err != nil {
		return "", fmt.Errorf("its port has to be a number from 0 to 65535")
	}
	return s, nil
}

func databaseURL(s redact.Secret) error {
	text := s.Reveal()
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok && path != "" {
		return nil
	}
	if u, err := url.Parse(text); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Path != "" {
		return nil
	}
	return fmt.Errorf("sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE is needed")
}

func bootstrapToken(s redact.Secret) error {
	if n := len(s.Reveal()); n < 32 || n > 256 || strings.ContainsAny(s.Reveal(), " \t\r\n") {
		return fmt.Errorf("32 to 256 characters without blanks are needed")
	}
	return nil
}
