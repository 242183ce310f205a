package cli

import "runtime"

type versionCmd struct {
	output
}

// Run says what this program is.
func (versionCmd) Run(c *call) error {
	v := map[string]string{"version": c.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if c.json {
		return c.printJSON(v)
	}
	c.out.print("holdfast %s (%s, %s)\n", v["version"], v["go"], v["platform"])
	return nil
}
