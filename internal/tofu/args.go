// Package tofu knows OpenTofu's and Terraform's command line and what they print: argument vectors, the environment
// a command may see, versions, the lines of -json, outputs and exit statuses. It runs nothing.
package tofu

import "time"

// InitArgs prepares a work directory. With readonlyLockFile, for a source that ships a dependency lock file, a provider
// that the file does not list, or lists with another hash, is an error. Without it the lock file is written.
func InitArgs(readonlyLockFile bool) []string {
	args := []string{"init", "-input=false", "-no-color", "-reconfigure"}
	if readonlyLockFile {
		args = append(args, "-lockfile=readonly")
	}
	return args
}

// GetArgs fetches modules alone: no backend, no provider, no encryption command runs.
func GetArgs() []string { return []string{"get", "-no-color"} }

// ValidateArgs checks the configuration.
func ValidateArgs() []string { return []string{"validate", "-json", "-no-color"} }

// Mode is what a plan is for.
type Mode string

// The modes of a plan.
const (
	Normal      Mode = ""
	Destroy     Mode = "destroy"
	RefreshOnly Mode = "refresh-only" // compares the state with the world and proposes nothing
)

// PlanOptions say how to plan.
type PlanOptions struct {
	Out         string // file for the saved plan; required
	Mode        Mode
	LockTimeout time.Duration // how long to wait for the state lock; 0 fails at once
	NoLock      bool          // for previews and drift scans, which run beside a run
	VarFile     string        // values that win over every file the source ships; may be empty
}

// PlanArgs makes a saved plan.
func PlanArgs(o PlanOptions) []string {
	args := []string{"plan", "-input=false", "-no-color", "-json", "-out=" + o.Out}
	args = append(args, lock(o.LockTimeout, o.NoLock)...)
	if o.Mode != Normal {
		args = append(args, "-"+string(o.Mode))
	}
	if o.VarFile != "" {
		args = append(args, "-var-file="+o.VarFile)
	}
	return args
}

// ShowArgs prints a saved plan as one JSON document, secrets included.
func ShowArgs(planFile string) []string { return []string{"show", "-json", "-no-color", planFile} }

// ApplyArgs applies a saved plan. There is no other form: without a file the tool would plan anew.
func ApplyArgs(planFile string, lockTimeout time.Duration) []string {
	args := []string{"apply", "-input=false", "-no-color", "-json"}
	return append(append(args, lock(lockTimeout, false)...), planFile)
}

// OutputArgs prints the outputs, sensitive ones included.
func OutputArgs() []string { return []string{"output", "-json", "-no-color"} }

// VersionArgs prints the version, for ParseVersion.
func VersionArgs() []string { return []string{"version", "-json"} }

func lock(timeout time.Duration, none bool) []string {
	if none {
		return []string{"-lock=false"}
	}
	return []string{"-lock-timeout=" + timeout.String()}
}
