package access

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// Names of agents and organizations go into paths, logs and shells; accounts are named by their clouds.
var (
	plainName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
	orgName     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	accountName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.:_-]{0,127}$`)
)

// CheckAgentName refuses what is not 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first.
func CheckAgentName(name string) error {
	return check(plainName, "An agent", name, "Use 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first.")
}

// CheckAccountName refuses what cannot be an AWS account id, a Google Cloud project id, an Azure subscription id or
// a name such as local.
func CheckAccountName(name string) error {
	return check(accountName, "An account", name, "Use the AWS account id, the Google Cloud project id, the Azure subscription id, or local.")
}

// CheckOrganizationName refuses what is not 1 to 64 lower-case letters, digits and dashes.
func CheckOrganizationName(name string) error {
	return check(orgName, "An organization", name, "Use 1 to 64 lower-case letters, digits and dashes, a letter or digit first.")
}

// CheckPersonName refuses names of people and labels of tokens that would not show as one line of text: they may be
// of any script, up to 64 characters.
func CheckPersonName(name string) error {
	if name != strings.TrimSpace(name) || name == "" || utf8.RuneCountInString(name) > 64 || redact.Plain(name) != name {
		return invalidName("A user or token", "Use 1 to 64 visible characters, without blanks at the ends.")
	}
	return nil
}

func check(rule *regexp.Regexp, what, name, hint string) error {
	if !rule.MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".") {
		return invalidName(what, hint)
	}
	return nil
}

func invalidName(what, hint string) error {
	return fault.New(fault.Invalid, "invalid_request", "%s cannot have this name.", what).WithHint("%s", hint)
}
