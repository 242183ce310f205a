package redact

import (
	"bytes"
	"io"
	"regexp"
)

// Shapes writes to out what is written to it, without what looks like a secret although nobody named it as one: access
// key ids of AWS, the values of password=, secret= and token= in their usual spellings, and PEM blocks. Resource
// ids, ARNs, hashes and references to variables stay. It is a second line of defence behind a Remover, and guesses.
//
// It works by line and holds one, so it belongs behind a LineCutter. Close it to get a last line out. Not for
// concurrent use. Rule: logs, provisioning agent 4.
type Shapes struct {
	out   io.Writer
	line  []byte
	inPEM int // lines since a PEM block began; 0: outside
}

// maxPEMLines is where a block that never ends is taken for something else.
const maxPEMLines = 400

// NewShapes makes a Shapes in front of out.
func NewShapes(out io.Writer) *Shapes { return &Shapes{out: out} }

// Write passes whole lines on.
func (s *Shapes) Write(p []byte) (int, error) {
	done := 0
	for {
		i := bytes.IndexByte(p[done:], '\n')
		if i < 0 {
			s.line = append(s.line, p[done:]...)
			return len(p), nil
		}
		s.line = append(s.line, p[done:done+i+1]...)
		if err := s.flush(); err != nil {
			return done, err
		}
		done += i + 1
	}
}

// Close passes a last line without a newline on.
func (s *Shapes) Close() error { return s.flush() }

func (s *Shapes) flush() error {
	if len(s.line) == 0 {
		return nil
	}
	clean := s.clean(s.line)
	s.line = s.line[:0]
	if len(clean) == 0 {
		return nil
	}
	_, err := s.out.Write(clean)
	return err
}

var (
	pemBlock   = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]{1,60}-----.*?-----END [A-Z0-9 ]{1,60}-----`)
	pemBegin   = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]{1,60}-----`)
	pemEnd     = regexp.MustCompile(`-----END [A-Z0-9 ]{1,60}-----`)
	accessKey  = regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`)
	assignment = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:password|passwd|secret|token|secret_?key|access_?key|private_?key|api_?key)(?:["']?\s*=\s*|["']\s*:\s*))("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',;&]+)`)
	harmless   = regexp.MustCompile(`^["']?(?:\(|null\b|true\b|false\b|arn:|\[redacted\]|["']?$|(?:var|local|module|data|each|random_[a-z]+)\.)`)
)

func (s *Shapes) clean(line []byte) []byte {
	if s.inPEM > 0 {
		end := pemEnd.FindIndex(line)
		if end == nil {
			if s.inPEM++; s.inPEM > maxPEMLines {
				s.inPEM = 0
			}
			return nil
		}
		s.inPEM, line = 0, line[end[1]:]
	}
	line = pemBlock.ReplaceAllLiteral(line, []byte(Mark))
	if begin := pemBegin.FindIndex(line); begin != nil {
		s.inPEM = 1
		line = append(append(line[:begin[0]:begin[0]], Mark...), '\n')
	}
	line = accessKey.ReplaceAllLiteral(line, []byte(Mark))
	return assignment.ReplaceAllFunc(line, func(found []byte) []byte {
		at := assignment.FindSubmatchIndex(found)
		key, value := found[at[2]:at[3]], found[at[4]:at[5]]
		if harmless.Match(value) {
			return found
		}
		quote := ""
		if value[0] == '"' || value[0] == '\'' {
			quote = string(value[:1])
		}
		return append(append(bytes.Clone(key), quote...), Mark+quote...)
	})
}
