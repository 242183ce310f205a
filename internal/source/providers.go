package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// signIn lists, by provider type, the arguments that decide who a template acts as. That is the agent's to decide, so any
// value is refused, an empty one too. Rule: provisioning agent 3.1, 3.1.1, 3.1.2.
var signIn = map[string][]string{
	"aws": {
		"profile", "assume_role", "assume_role_with_web_identity", "access_key", "secret_key", "token",
		"shared_config_files", "shared_credentials_files", "shared_credentials_file",
	},
	"awscc": {
		"profile", "assume_role", "assume_role_with_web_identity", "access_key", "secret_key", "token",
		"shared_config_files", "shared_credentials_files", "role_arn",
	},
	"google": {"credentials", "access_token", "impersonate_service_account", "impersonate_service_account_delegates", "external_credentials"},
	"azurerm": {
		"client_id", "client_id_file_path", "client_secret", "client_secret_file_path",
		"client_certificate", "client_certificate_path", "client_certificate_password",
		"tenant_id", "auxiliary_tenant_ids", "use_oidc", "oidc_token", "oidc_token_file_path", "oidc_request_token", "oidc_request_url",
		"use_aks_workload_identity", "ado_pipeline_service_connection_id", "environment", "metadata_host", "msi_endpoint", "msi_api_version",
	},
}

// orFalse lists the arguments that may be set, to false alone.
var orFalse = map[string][]string{"azurerm": {"use_cli", "use_msi"}}

// underOwnName are the provider types that must keep their name, so that the agent's override files find them.
var underOwnName = []string{"aws", "google", "google-beta", "azurerm"}

// rulesOf is the key of a provider type in signIn and orFalse.
func rulesOf(typ string) string {
	if typ == "google-beta" {
		return "google"
	}
	return typ
}

// providerNames maps the local names of a module to provider types, overrides merged in.
func providerNames(files []*parsed) map[string]string {
	names := map[string]string{}
	for _, p := range files {
		for _, b := range blocks(p.body, rootSchema) {
			if b.Type != "terraform" {
				continue
			}
			for _, inner := range blocks(b.Body, terraformSchema) {
				if inner.Type != "required_providers" {
					continue
				}
				for _, s := range settings(inner.Body) {
					if typ := sourceType(s.expr); typ != "" {
						names[s.name] = typ
					}
				}
			}
		}
	}
	return names
}

// sourceType is the last part of the source address in one entry of required_providers, or "" without one. A
// provider of another namespace counts as the one it is named after: it is most likely a fork.
func sourceType(entry hcl.Expression) string {
	if entry == nil {
		return ""
	}
	text, ok := literal(attribute(entry, "source"))
	if !ok {
		return ""
	}
	return strings.ToLower(text[strings.LastIndex(text, "/")+1:])
}

func (c *checker) requiredProviders(p *parsed, b *hcl.Block) {
	for _, s := range settings(b.Body) {
		if typ := sourceType(s.expr); typ != s.name && slices.Contains(underOwnName, typ) {
			c.at(p, s.at, "source_provider_name", fmt.Sprintf("requires %s under the name %q", typ, s.name),
				"who signs in to it could not be decided by the agent then", fmt.Sprintf("Name it %q.", typ))
		}
	}
}

func (c *checker) provider(p *parsed, b *hcl.Block, names map[string]string, isRoot bool) {
	name := b.Labels[0]
	// The type its source says, and its own name: whichever is held.
	for _, typ := range slices.Compact([]string{name, names[name]}) {
		rules := rulesOf(typ)
		if signIn[rules] == nil {
			continue
		}
		if p.override {
			c.at(p, b.DefRange, "source_override", fmt.Sprintf("configures provider %q in an override file", name),
				"override files are merged by name, and it could replace what the agent adds to the provider", "Configure it in a normal file.")
		}
		if typ == "azurerm" && !isRoot {
			c.at(p, b.DefRange, "source_sign_in", fmt.Sprintf("configures provider %q in a module", name),
				"the agent decides who signs in to Azure in the root module", "Pass the root module's configuration to the module.")
		}
		for _, s := range settings(b.Body) {
			if slices.Contains(signIn[rules], s.name) || slices.Contains(orFalse[rules], s.name) && !isFalse(s.expr) {
				c.at(p, s.at, "source_sign_in", fmt.Sprintf("sets %s in provider %q", s.name, name),
					"who signs in is the agent's: the template's runner, or the agent itself where it has none", "Remove the argument.")
			}
		}
	}
}
