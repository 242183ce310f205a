package config

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// Blob is the object store. The zero value is none: everything is in the database.
type Blob struct {
	Bucket    string
	Prefix    string   // of all keys; "" or it ends in "/"
	Endpoint  *url.URL // scheme and host; nil for Amazon's
	Region    string   // "" to ask the store
	PathStyle bool     // the bucket stands in the path of requests, not in the host's name

	CAFile   string
	ReadOnly bool // nothing is put there or removed
}

// Set reports whether there is one.
func (b Blob) Set() bool { return b.Bucket != "" }

const blobForm = "s3://BUCKET, with ?endpoint=https://HOST, region=REGION and use_path_style=true where they are needed,"

// addBlob declares the object store.
func addBlob(s *Set, b *Blob) {
	Add(s, b, "BLOB_URL", "", "Where sealed bytes that are too large for a row go: "+blobForm+" and a prefix for keys as its path. "+
		"Credentials come from AWS_ACCESS_KEY_ID and the other usual places. Default in the database.", blobURL)
	s.settings[len(s.settings)-1].hidden = true // somebody may have put credentials there
	Add(s, &b.CAFile, "BLOB_CA_FILE", "", "File with authorities (PEM) that the object store's certificate is checked against, beside the system's.", readable)
	Add(s, &b.ReadOnly, "BLOB_READ_ONLY", "false", "true to read from the object store, and neither put anything there nor remove it: for a copy of an installation, and on the way back into the database.", Bool)
	AddCheck(s, func() []string {
		if !b.Set() && (b.CAFile != "" || b.ReadOnly) {
			return []string{Prefix + "BLOB_URL is needed: other settings of the object store are given."}
		}
		return nil
	})
}

var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

func blobURL(s string) (b Blob, err error) {
	if s == "" {
		return b, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "s3" || u.Opaque != "" || u.Fragment != "" || u.Port() != "" || !bucketName.MatchString(u.Hostname()):
		return b, fmt.Errorf("%s is needed", blobForm)
	case u.User != nil:
		return b, fmt.Errorf("credentials do not stand in it; give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or by a file or a role")
	}
	b.Bucket = u.Host
	if b.Prefix = strings.Trim(u.Path, "/"); b.Prefix != "" {
		b.Prefix += "/"
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return b, fmt.Errorf("what follows its ? cannot be read")
	}
	for name, values := range options {
		if len(values) > 1 {
			return b, fmt.Errorf("%s is given twice", name)
		}
		if err := b.option(name, values[0]); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (b *Blob) option(name, value string) (err error) {
	switch name {
	case "endpoint":
		if b.Endpoint, err = HTTPURL(value); err != nil || b.Endpoint == nil || b.Endpoint.Path != "" {
			return fmt.Errorf("its endpoint has to be a URL such as https://s3.example.com")
		}
	case "region":
		b.Region = value
	case "use_path_style":
		if b.PathStyle, err = Bool(value); err != nil {
			return fmt.Errorf("its use_path_style has to be true or false")
		}
	default:
		return fmt.Errorf("it has endpoint, region and use_path_style behind its ?, and nothing else")
	}
	return nil
}

// readable takes the path of a file that can be read; "" is none.
func readable(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return path, f.Close()
}
