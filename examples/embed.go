// Package examples holds configurations to try Holdfast with. They need no provider to download and no account.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed hello
var files embed.FS

// Hello is the folder hello: the smallest configuration that shows a whole run.
func Hello() fs.FS {
	sub, err := fs.Sub(files, "hello")
	if err != nil {
		panic(err) // the name is a valid path
	}
	return sub
}
