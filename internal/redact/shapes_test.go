package redact

import (
	"errors"
	"strings"
	"testing"
)

func TestShapes(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"key AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE.\n", "key [redacted] and [redacted].\n"},
		{"AKIAIOSFODNN7EXAMPLEX XAKIAIOSFODNN7EXAMPLE AKIAshort\n", "AKIAIOSFODNN7EXAMPLEX XAKIAIOSFODNN7EXAMPLE AKIAshort\n"},
		{"password=hunter2 rest\n", "password=[redacted] rest\n"},
		{`db_password = "hunter two" rest` + "\n", `db_password = "[redacted]" rest` + "\n"},
		{`{"token":"a\"b","x":1}` + "\n", `{"token":"[redacted]","x":1}` + "\n"},
		{`client_secret: 'x'`, `client_secret: 'x'`},
		{`"client_secret" : "x"`, `"client_secret" : "[redacted]"`},
		{"postgres://h/db?user=u&password=hunter2&ssl=1", "postgres://h/db?user=u&password=[redacted]&ssl=1"},
		{"export AWS_SECRET_ACCESS_KEY=abc SECRET_KEY=def API_KEY='g h'", "export AWS_SECRET_ACCESS_KEY=[redacted] SECRET_KEY=[redacted] API_KEY='[redacted]'"},
		{"PGPASSWORD=x", "PGPASSWORD=[redacted]"},
		// What stays.
		{"invalid token: unexpected end\n", "invalid token: unexpected end\n"},
		{"password = (sensitive value)\n", "password = (sensitive value)\n"},
		{"password = var.db_password\n", "password = var.db_password\n"},
		{"token = null\n", "token = null\n"},
		{`token = ""` + "\n", `token = ""` + "\n"},
		{"secret = arn:aws:secretsmanager:eu-west-1:1:secret:x\n", "secret = arn:aws:secretsmanager:eu-west-1:1:secret:x\n"},
		{"secret_arn = \"x\" token_ttl=3600\n", "secret_arn = \"x\" token_ttl=3600\n"},
		{"id=sg-0123456789abcdef0 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n", "id=sg-0123456789abcdef0 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"},
		{"password=[redacted]\n", "password=[redacted]\n"},
		// PEM.
		{"a " + pem + "b\n", "a [redacted]\n\nb\n"},
		{"a " + strings.ReplaceAll(pem, "\n", `\n`) + " b\n", `a [redacted]\n b` + "\n"},
		{"  | -----BEGIN CERTIFICATE-----\n  | MIIB\n  | -----END CERTIFICATE-----\nafter\n", "  | [redacted]\n\nafter\n"},
		{"-----BEGIN X-----\nnever ends", "[redacted]\n"},
		{"", ""},
		{"no newline", "no newline"},
	} {
		for _, cut := range []int{0, len(tc.in) / 2, len(tc.in)} {
			var out strings.Builder
			writeAll(t, NewShapes(&out), tc.in[:cut], tc.in[cut:])
			if out.String() != tc.want {
				t.Errorf("%q cut at %d:\n got %q\nwant %q", tc.in, cut, out.String(), tc.want)
			}
		}
	}
	var out strings.Builder
	writeAll(t, NewShapes(&out), "-----BEGIN X-----\n", strings.Repeat("line\n", maxPEMLines+10))
	if got := strings.Count(out.String(), "line"); got != 10 {
		t.Errorf("after a block without an end %d lines came through, want 10", got)
	}
	if _, err := NewShapes(failing{}).Write([]byte("x\n")); !errors.Is(err, errFull) {
		t.Errorf("Write = %v", err)
	}
}
