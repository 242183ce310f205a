package cli

import "holdfast.dev/holdfast/internal/app"

// openapiCmd writes api/openapi.yaml out; make generate runs it.
type openapiCmd struct {
	Format string `enum:"yaml,json" default:"yaml" help:"yaml or json."`
}

// Run prints the document.
func (cmd *openapiCmd) Run(c *call) error {
	asJSON, asYAML, err := app.OpenAPI()
	if err != nil {
		return err
	}
	if cmd.Format == "json" {
		asYAML = append(asJSON, '\n')
	}
	_, err = c.Stdout.Write(asYAML)
	return err
}
