package transit

import "testing"

// Keep looks once at whether the login has to be renewed, as Run does every few seconds.
func (c *Client) Keep(t *testing.T) { c.login.keep(t.Context()) }
