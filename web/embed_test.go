package web_test

import (
	"io/fs"
	"strings"
	"testing"

	"holdfast.dev/holdfast/web"
)

func TestIndexIsThereBuiltOrNot(t *testing.T) {
	page, err := fs.ReadFile(web.FS(), "index.html")
	if err != nil {
		t.Fatalf("read index.html: %v", err)
	}
	want := `<div id="root">`
	if !web.Built() {
		want = "make web"
	}
	if !strings.Contains(string(page), want) {
		t.Errorf("index.html (built: %t) does not hold %q:\n%s", web.Built(), want, page)
	}
}

// The content security policy allows no inline script and no inline style, so a page that has one is broken.
func TestPageHasNothingInline(t *testing.T) {
	page, err := fs.ReadFile(web.FS(), "index.html")
	if err != nil {
		t.Fatalf("read index.html: %v", err)
	}
	for _, s := range strings.Split(string(page), "<script")[1:] {
		if tag, _, _ := strings.Cut(s, ">"); !strings.Contains(tag, "src=") {
			t.Errorf("inline script: <script%s>", tag)
		}
	}
	for _, no := range []string{"<style", " style=", " onload=", "javascript:"} {
		if strings.Contains(string(page), no) {
			t.Errorf("index.html holds %q", no)
		}
	}
}
