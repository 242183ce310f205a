package cli

import (
	"context"
	"runtime"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/web"
)

type serverCmd struct{}

// Help lists every setting.
func (serverCmd) Help() string {
	return "Serve the API and the web UI until an interrupt; requests that have begun then have 20 seconds.\n\n" +
		"Settings come from the environment. A secret may also stand in a file that NAME_FILE names.\n\n" +
		config.ServerSettings(&config.Server{}).Help() +
		"\nExample:\n  HOLDFAST_DATA_DIR=/srv/holdfast HOLDFAST_TF_STATE_ENCRYPTION_KEY_FILE=/etc/holdfast/key holdfast server"
}

// Run serves.
func (serverCmd) Run(ctx context.Context, c *call) error {
	settings, warnings, err := config.LoadServer(c.Environ)
	log := config.Logger(c.Stderr, settings.LogLevel, settings.LogFormat)
	for _, w := range warnings {
		log.WarnContext(ctx, "look at the environment", "warning", w)
	}
	if err != nil {
		return err
	}
	server, err := app.New(ctx, app.Config{Settings: settings, Version: c.Version, UI: web.FS(), Log: log, Now: c.Now})
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "address", server.Addr(), "url", server.BaseURL(), "version", c.Version)
	if link := server.SignInLink(); link != "" {
		c.out.print("To sign in as the first administrator, open this link once, within 24 hours:\n\n  %s\n\n", link)
	}
	// The collector runs when the heap has doubled, and a server's is small, so it runs often: a 10 KB cycle leaves some
	// 190 KB of garbage. With what is never written to, and so takes no memory, it runs less often, at up to ballast
	// bytes of garbage more.
	heap := make([]byte, ballast)
	defer runtime.KeepAlive(heap)
	return server.Run(ctx)
}

// ballast is what the server's heap counts as more than it is, in bytes.
const ballast = 12 << 20
