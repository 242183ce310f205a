// Package web is the web UI as it was built into dist, embedded in the program.
package web

import (
	"embed"
	"io/fs"
)

// Vite writes dist; .gitkeep, which it copies there from public, lets the package compile before the first build.
//
//go:embed all:dist placeholder
var files embed.FS

// Built reports whether the UI was built into this program.
func Built() bool {
	_, err := fs.Stat(files, "dist/index.html")
	return err == nil
}

// FS is the files to serve: index.html, and under assets/ files whose names carry a hash of their content, so that
// they never change. Where the UI was not built it holds one page, index.html, that says how to build it.
func FS() fs.FS {
	dir := "placeholder"
	if Built() {
		dir = "dist"
	}
	sub, err := fs.Sub(files, dir)
	if err != nil {
		panic("web: " + err.Error()) // only an invalid path, and both are constants
	}
	return sub
}
