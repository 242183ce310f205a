//go:build !linux

package cli

import "os"

// dropTyped does nothing: there is no portable way to drop what was typed.
func dropTyped(*os.File) {}
