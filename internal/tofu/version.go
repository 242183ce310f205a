package tofu

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"holdfast.dev/holdfast/internal/fault"
)

// The two tools.
const (
	OpenTofu  = "OpenTofu"
	Terraform = "Terraform"
)

// Version is a tool and its exact version. A saved plan can be applied by the same one only.
type Version struct {
	Tool     string `json:"tool"`    // OpenTofu or Terraform
	Version  string `json:"version"` // as the tool says it, e.g. 1.12.6
	Platform string `json:"platform,omitempty"`
}

func (v Version) String() string { return v.Tool + " " + v.Version }

// Minimum versions: OpenTofu 1.8 is the first with early evaluation, Terraform 1.9 the oldest that was tried.
const (
	minOpenTofu  = 8
	minTerraform = 9
)

var versionPattern = regexp.MustCompile(`^([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// ParseVersion reads what `version -json` printed and refuses a tool that is too old or is something else.
func ParseVersion(out []byte) (Version, error) {
	var doc struct {
		Version  string `json:"terraform_version"`
		Platform string `json:"platform"`
		Outdated *bool  `json:"terraform_outdated"` // only Terraform says this
	}
	err := json.Unmarshal(out, &doc)
	parts := versionPattern.FindStringSubmatch(doc.Version)
	if err != nil || parts == nil {
		return Version{}, fault.Wrap(err, fault.Unprocessable, "tofu_unknown", "The tofu binary did not say its version; it printed %.80q.", out).
			WithHint("HOLDFAST_TOFU_BIN must name OpenTofu 1.%d or later, or Terraform 1.%d or later.", minOpenTofu, minTerraform)
	}
	v := Version{Tool: OpenTofu, Version: doc.Version, Platform: doc.Platform}
	least := minOpenTofu
	if doc.Outdated != nil {
		v.Tool, least = Terraform, minTerraform
	}
	major, _ := strconv.Atoi(parts[1]) // the pattern allows digits alone
	minor, _ := strconv.Atoi(parts[2])
	if major == 0 || major == 1 && minor < least {
		return v, fault.New(fault.Unprocessable, "tofu_too_old", "%s is too old; %s.", v, fmt.Sprintf("at least %s 1.%d is needed", v.Tool, least)).
			WithHint("Install a later one, or set HOLDFAST_TOFU_BIN to one.")
	}
	return v, nil
}
