package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Content is what a document is mostly made of.
type Content string

// The contents, from the one that compresses best to the one that does not.
const (
	Plain          Content = "plain"      // as a tool writes resources
	NonLatin       Content = "non-latin"  // three bytes a character
	Incompressible Content = "incompress" // random text
)

// Document makes a state document of size bytes, give or take one resource.
func Document(serial uint64, lineage string, size int, content Content) []byte {
	var b bytes.Buffer
	b.Grow(size + 1024)
	fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":%q,"outputs":{},"resources":[`, serial, lineage)
	r := rand.New(rand.NewPCG(serial, uint64(size))) //nolint:gosec // test data
	for i := 0; i == 0 || b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		n := strconv.Itoa(i)
		b.WriteString(`{"mode":"managed","type":"aws_instance","name":"web_` + n +
			`","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]","instances":[{"schema_version":1,"attributes":{"id":"i-`)
		fmt.Fprintf(&b, "%016x", r.Uint64())
		b.WriteString(`","arn":"arn:aws:ec2:eu-west-1:123456789012:instance/` + n + `","tags":{"Name":"`)
		filler(&b, r, content)
		b.WriteString(`"}},"sensitive_attributes":[]}]}`)
	}
	b.WriteString(`],"check_results":null}`)
	return b.Bytes()
}

func filler(b *bytes.Buffer, r *rand.Rand, content Content) {
	switch content {
	case NonLatin:
		for range 100 {
			b.WriteRune(rune(0x4e00 + r.IntN(2000)))
		}
	case Incompressible:
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		for range 16 << 10 {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
	case Plain:
		b.WriteString("web")
	}
}

// Serial is the serial of a document that Document made.
func Serial(document []byte) (serial uint64, err error) {
	if _, err := fmt.Sscanf(string(document[:min(len(document), 200)]), `{"version":4,"terraform_version":"1.12.6","serial":%d,`, &serial); err != nil {
		return 0, fmt.Errorf("the document %.120q is none of ours: %w", document, err)
	}
	return serial, nil
}
