package tofu

import (
	"maps"
	"slices"
	"strings"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// identity lists what a command may see of the worker's own environment: where it runs and who it is in a cloud, by
// reference, never a key. Everything in a command's environment can be read by the configuration it runs.
// Rule: the environment of a command, provisioning agent 2.1.
var identity = [...]string{
	"TZ",
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
	"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
	"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
	"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_REGION", "GOOGLE_ZONE",
	"GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
	"ARM_USE_OIDC", "ARM_OIDC_TOKEN_FILE_PATH", "ARM_TENANT_ID", "ARM_CLIENT_ID",
	"ARM_USE_AKS_WORKLOAD_IDENTITY", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID", "AZURE_CLIENT_ID",
	"ARM_USE_CLI", "ARM_USE_MSI",
}

// ours lists the variables that Environment sets itself.
var ours = [...]string{"PATH", "HOME", "TMPDIR", "TF_IN_AUTOMATION", "TF_INPUT", "TF_DATA_DIR", "TF_CLI_CONFIG_FILE"}

// defaultPath is the PATH of a command whose worker has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Backend is the state of an attempt as the http backend sees it. Given in the environment, none of it ends in the
// plan file or in .terraform.
type Backend struct {
	Address  string // of the state; the lock is at Address + "/lock" unless Lock says otherwise
	Lock     string // lock and unlock address
	Username string
	Password redact.Secret
	NoLock   bool // previews and drift scans: no lock address at all
}

// EnvironmentOptions say what a command sees.
type EnvironmentOptions struct {
	Host      []string          // the worker's environment, KEY=value; only the allowed part is taken
	Home      string            // required; the attempt's own, empty at its start
	TempDir   string            // required; likewise
	DataDir   string            // moves .terraform; may be empty
	CLIConfig string            // the tool's configuration file; empty means none at all, never the user's
	Backend   *Backend          // nil: the state is not ours
	Set       map[string]string // more variables of the allowed names, e.g. a runner's profile; they win over Host
}

// Environment builds the whole environment of a command from nothing, sorted by name. It fails on a name in Set that
// CheckVariableName refuses, and on a missing Home or TempDir.
func Environment(o EnvironmentOptions) ([]string, error) {
	if o.Home == "" || o.TempDir == "" {
		return nil, fault.New(fault.Internal, "environment_incomplete", "A command's environment needs a home and a temporary directory of its own.")
	}
	host := map[string]string{}
	for _, kv := range o.Host {
		if name, value, ok := strings.Cut(kv, "="); ok {
			host[name] = value
		}
	}
	env := map[string]string{
		"PATH": defaultPath, "HOME": o.Home, "TMPDIR": o.TempDir,
		"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "TF_CLI_CONFIG_FILE": "/dev/null",
		"CHECKPOINT_DISABLE": "1", // Terraform asks its maker for news otherwise
	}
	if p := host["PATH"]; p != "" {
		env["PATH"] = p
	}
	for _, name := range identity {
		if value, ok := host[name]; ok {
			env[name] = value
		}
	}
	if o.CLIConfig != "" {
		env["TF_CLI_CONFIG_FILE"] = o.CLIConfig
	}
	if o.DataDir != "" {
		env["TF_DATA_DIR"] = o.DataDir
	}
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		if err := CheckVariableName(name); err != nil {
			return nil, err
		}
		env[name] = o.Set[name]
	}
	if o.Backend != nil {
		o.Backend.set(env)
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.ContainsRune(env[name], 0) {
			return nil, fault.New(fault.Invalid, "variable_value", "The value of environment variable %s holds a NUL character.", name)
		}
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

func (b *Backend) set(env map[string]string) {
	env["TF_HTTP_ADDRESS"] = b.Address
	env["TF_HTTP_USERNAME"] = b.Username
	env["TF_HTTP_PASSWORD"] = b.Password.Reveal()
	if !b.NoLock {
		at := b.Lock
		if at == "" {
			at = b.Address + "/lock"
		}
		env["TF_HTTP_LOCK_ADDRESS"], env["TF_HTTP_UNLOCK_ADDRESS"] = at, at
	}
}

// CheckVariableName reports why an environment variable may not be given to a command, or nil. It is an allow list:
// what is not known to be harmless is refused, with the reason where the name is known to steer the tool, its
// downloads, its helpers or its logs. Checked when a setting is saved and again by the agent.
func CheckVariableName(name string) error {
	if slices.Contains(identity[:], name) {
		return nil
	}
	refuse := func(why, hint string) error {
		return fault.New(fault.Unprocessable, "variable_refused", "Environment variable %.80q is refused: %s", name, why).WithHint("%s", hint)
	}
	const list = "Allowed are the cloud identity variables that the agent's documentation lists."
	upper := strings.ToUpper(name)
	switch {
	case slices.Contains(ours[:], upper):
		return refuse("the agent sets it itself.", "Leave it out.")
	case strings.HasPrefix(upper, "TF_VAR_"):
		return refuse("a variable of the configuration is given as an input, so that the plan's approval covers it.", "Give the value as an input of the component.")
	case steering(upper):
		return refuse("it would steer the tool, or a program it starts, past the checks of a run.", list)
	case static(upper):
		return refuse("a static credential in the environment can be read by the configuration.", "Give the agent a role, or a credentials file named by AWS_SHARED_CREDENTIALS_FILE.")
	}
	return refuse("it is not on the list of variables a command may see.", list)
}

// steering knows the names that change what is run, downloaded, connected to or written. It only picks the reason:
// a name that it misses is refused all the same.
func steering(name string) bool {
	for _, prefix := range [...]string{
		"TF_", "TOFU_", "TERRAFORM_", "OPENTOFU_", "OTEL_", "GIT_", "SSH_", "LD_", "DYLD_", "SSL_", "XDG_",
		"HOLDFAST_", "GO", "BASH_", "PYTHON", "NODE_", "PERL", "RUBY",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_PROXY") || slices.Contains([]string{
		"NETRC", "ENV", "IFS", "SHELL", "EDITOR", "PAGER", "BROWSER", "CURL_CA_BUNDLE", "CURL_HOME", "DOCKER_HOST", "DOCKER_CONFIG",
	}, name)
}

func static(name string) bool {
	return slices.Contains([]string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "GOOGLE_CREDENTIALS",
		"GOOGLE_OAUTH_ACCESS_TOKEN", "ARM_CLIENT_SECRET", "ARM_CLIENT_CERTIFICATE_PATH", "ARM_CLIENT_CERTIFICATE_PASSWORD", "ARM_ACCESS_KEY", "ARM_SAS_TOKEN",
	}, name)
}
