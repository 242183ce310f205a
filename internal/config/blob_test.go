package config_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/fault"
)

func TestBlobURL(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]config.Blob{
		"":             {},
		"s3://a-state": {Bucket: "a-state"},
		"s3://state/team/a/?region=eu-west-1": {
			Bucket: "state", Prefix: "team/a/", Region: "eu-west-1",
		},
		"s3://state?endpoint=https://s3.example.com:9000&use_path_style=true": {
			Bucket: "state", Endpoint: &url.URL{Scheme: "https", Host: "s3.example.com:9000"}, PathStyle: true,
		},
	} {
		environ := []string{"HOLDFAST_BLOB_URL=" + line}
		if want.Set() {
			want.CAFile, want.ReadOnly = ca, true
			environ = append(environ, "HOLDFAST_BLOB_CA_FILE="+ca, "HOLDFAST_BLOB_READ_ONLY=true")
		}
		c, _, err := config.LoadServer(environ)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := c.Blob
		if got.Endpoint != nil && want.Endpoint != nil && *got.Endpoint == *want.Endpoint {
			got.Endpoint = want.Endpoint
		}
		if got != want {
			t.Errorf("%s = %+v, want %+v", line, got, want)
		}
	}
}

func TestMalformedBlobURL(t *testing.T) {
	for _, line := range []string{
		"state", "s3:state", "s3://", "s3://a", "s3://a b", "s3://state:9000", "file:///srv/state", "https://s3.example.com/state", "s3://state#x",
		"s3://state?endpoint=s3.example.com", "s3://state?endpoint=", "s3://state?endpoint=https://h/path", "s3://state?use_path_style=maybe",
		"s3://state?regoin=eu-west-1", "s3://state?region=a&region=b", "s3://state?a=%zz", "s3://AKIDEXAMPLE:verysecret@state",
	} {
		_, _, err := config.LoadServer([]string{"HOLDFAST_BLOB_URL=" + line})
		if fault.Code(err) != config.CodeInvalid || !strings.Contains(fault.From(err).Public, "HOLDFAST_BLOB_URL") {
			t.Errorf("%s: %v, want %s that names the setting", line, err, config.CodeInvalid)
		}
		if err != nil && strings.Contains(err.Error(), "verysecret") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	for _, environ := range [][]string{
		{"HOLDFAST_BLOB_READ_ONLY=true"},
		{"HOLDFAST_BLOB_URL=s3://state", "HOLDFAST_BLOB_READ_ONLY=perhaps"},
		{"HOLDFAST_BLOB_URL=s3://state", "HOLDFAST_BLOB_CA_FILE=/nonexistent/ca.pem"},
	} {
		if _, _, err := config.LoadServer(environ); fault.Code(err) != config.CodeInvalid || !strings.Contains(err.Error(), "HOLDFAST_BLOB_") {
			t.Errorf("%v: %v, want %s that names the setting", environ, err, config.CodeInvalid)
		}
	}
}
