package config

import (
	"net/url"

	"holdfast.dev/holdfast/internal/redact"
)

// Client is the settings of the command line.
type Client struct {
	Addr  *url.URL // nil: what login kept
	Token redact.Secret
}

// ClientSettings is the table of the command line's settings, kept in c.
func ClientSettings(c *Client) *Set {
	s := &Set{}
	Add(s, &c.Addr, "ADDR", "", "Where the server is; default what holdfast login kept.", HTTPURL)
	AddSecret(s, &c.Token, "TOKEN", "The token to use; default what holdfast login kept.", nil)
	return s
}

// LoadClient reads the command line's settings.
func LoadClient(environ []string) (c Client, warnings []string, err error) {
	warnings, err = ClientSettings(&c).Load(environ, others()...)
	return c, warnings, err
}
