package cli

import (
	"net/http"

	"holdfast.dev/holdfast/internal/client"
	"holdfast.dev/holdfast/internal/redact"
)

// output is the flag of commands that answer something.
type output struct {
	JSON bool `name:"json" help:"Print one JSON document and nothing else."`
}

// AfterApply tells the rest of the program, before the command runs.
func (o output) AfterApply(c *call) error {
	c.json = o.JSON
	return nil
}

// remote is the flags of commands that call a server.
type remote struct {
	output
	Addr string `name:"addr" placeholder:"URL" help:"The server to call; default HOLDFAST_ADDR, else the one signed in to last."`
}

// connect makes a client of the server that is meant. Nothing is called yet.
func (r remote) connect(c *call) (*client.Client, error) {
	addr, token, err := c.where(r.Addr)
	if err != nil {
		return nil, err
	}
	return c.client(addr, token)
}

func (c *call) client(addr string, token redact.Secret) (*client.Client, error) {
	return client.New(client.Config{Address: addr, Token: token, UserAgent: "holdfast/" + c.Version, Proxy: http.ProxyFromEnvironment, Now: c.Now})
}

// paging is the flag of lists.
type paging struct {
	Limit int `placeholder:"N" help:"Print at most N; default all."`
}
