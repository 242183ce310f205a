package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Tool decides which files are read.
type Tool string

// The tools. OpenTofu reads .tofu files too, and of a .tofu and a .tf file of one name the former only.
const (
	OpenTofu  Tool = "OpenTofu"
	Terraform Tool = "Terraform"
)

// file is one configuration file of a folder.
type file struct {
	path     string // from the source's root, with slashes
	json     bool
	override bool
}

// configFiles lists the files of a folder that the tool reads, in its order: the normal ones, then the overrides, each
// by name.
func configFiles(root *os.Root, dir string, tool Tool) ([]file, error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if !ignored(name) && extension(name) != "" && !isFolder(root, path.Join(dir, name), e) {
			names[name] = true
		}
	}
	var normal, overrides []file
	for _, e := range entries { // sorted by name
		name := e.Name()
		ext := extension(name)
		if !names[name] || tool == Terraform && strings.HasPrefix(ext, ".tofu") {
			continue
		}
		stem := strings.TrimSuffix(name, ext)
		if tool != Terraform && (ext == ".tf" && names[stem+".tofu"] || ext == ".tf.json" && names[stem+".tofu.json"]) {
			continue
		}
		f := file{path: path.Join(dir, name), json: strings.HasSuffix(ext, ".json"), override: stem == "override" || strings.HasSuffix(stem, "_override")}
		if f.override {
			overrides = append(overrides, f)
		} else {
			normal = append(normal, f)
		}
	}
	return slices.Concat(normal, overrides), nil
}

func isFolder(root *os.Root, name string, e fs.DirEntry) bool {
	if e.Type() != fs.ModeSymlink {
		return e.IsDir()
	}
	info, err := root.Stat(name)
	return err == nil && info.IsDir()
}

// extension is the part of a file name that makes it configuration, or "". Case counts.
func extension(name string) string {
	for _, ext := range [...]string{".tf", ".tf.json", ".tofu", ".tofu.json"} {
		if strings.HasSuffix(name, ext) {
			return ext
		}
	}
	return ""
}

// ignored are editors' files.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// maxFileBytes bounds one configuration file.
const maxFileBytes = 4 << 20

var errTooLarge = errors.New("larger than 4 MiB")

func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name) // opening a pipe would wait for ever
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	src, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(src) > maxFileBytes {
		err = errTooLarge
	}
	return src, err
}
