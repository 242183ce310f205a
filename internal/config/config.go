// Package config reads settings from the environment: a table of names with defaults and help, one error that names
// every malformed setting, and warnings for names that nobody knows.
package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/redact"
)

// Prefix begins the name of every setting.
const Prefix = "HOLDFAST_"

// CodeInvalid is the code of every error that a setting causes; programs end with exit code 2 on it.
const CodeInvalid = "setting_invalid"

// Setting is one setting, as the help shows it.
type Setting struct {
	Name    string // with the prefix
	Default string // as the help shows it
	Help    string
	Secret  bool // may also be given as a file, named by Name_FILE

	hidden bool // its value is not repeated in a complaint
	set    func(value string) error
	tagged func(tag, value string) error // instead of set, where the name holds Tag
}

// Tag stands in the name of a setting that there is once for each of several things; what stands in its place names
// the thing, in upper case letters, digits and underscores.
const Tag = "<TAG>"

// Set is the settings of one program, in the order of the help.
type Set struct {
	settings []Setting
	checks   []func() []string // of several settings together; each gives complaints
}

// Add declares a setting that is kept in p. Its default is parsed like a value, so it has to be one.
func Add[T any](s *Set, p *T, name, def, help string, parse func(string) (T, error)) {
	s.settings = append(s.settings, Setting{Name: Prefix + name, Default: def, Help: help, set: func(value string) error {
		v, err := parse(value)
		if err == nil {
			*p = v
		}
		return err
	}})
}

// AddSecret declares a secret setting; check may be nil. Name_FILE names a file that holds it instead.
func AddSecret(s *Set, p *redact.Secret, name, help string, check func(redact.Secret) error) {
	s.settings = append(s.settings, Setting{Name: Prefix + name, Help: help, Secret: true, set: func(value string) error {
		v := redact.NewSecret(value)
		if value != "" && check != nil {
			if err := check(v); err != nil {
				return err
			}
		}
		*p = v
		return nil
	}})
}

// AddTagged declares a setting whose name holds Tag. It has no default; set is called for each value that is given.
func AddTagged(s *Set, name, help string, set func(tag, value string) error) {
	s.settings = append(s.settings, Setting{Name: Prefix + name, Help: help, tagged: set})
}

// AddCheck has the settings looked at together once all are read, whether or not one of them was malformed.
func AddCheck(s *Set, check func() []string) { s.checks = append(s.checks, check) }

// Settings lists the set.
func (s *Set) Settings() []Setting { return slices.Clone(s.settings) }

// Load fills the set's variables from environ ("NAME=value"). The first of two values of a name counts for nothing,
// as in a shell. Names that begin with the prefix and are neither in the set nor among known are warned of.
func (s *Set) Load(environ []string, known ...*Set) (warnings []string, err error) {
	env := map[string]string{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, Prefix) {
			env[name] = value
		}
	}
	var wrong []string
	for _, x := range s.settings {
		if x.tagged != nil {
			continue
		}
		value, err := x.value(env)
		if err == nil {
			err = x.set(value)
		}
		if err != nil {
			wrong = append(wrong, x.complaint(value, err))
		}
	}
	wrong = append(wrong, s.loadTagged(env)...)
	for _, check := range s.checks {
		wrong = append(wrong, check()...)
	}
	warnings = unknown(env, append(known, s))
	if len(wrong) > 0 {
		return warnings, Invalid("%s", strings.Join(wrong, "\n"))
	}
	return warnings, nil
}

// loadTagged takes the values of settings whose names hold a tag, in order of name.
func (s *Set) loadTagged(env map[string]string) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		x, tag := s.findTagged(name)
		if x == nil || env[name] == "" {
			continue
		}
		if err := x.tagged(tag, env[name]); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s cannot be %q: %v.", name, env[name], err))
		}
	}
	return wrong
}

// findTagged is the setting that name is one of, and the tag in it. Where two fit, it is the one that leaves the
// shorter tag.
func (s *Set) findTagged(name string) (found *Setting, tag string) {
	for i, x := range s.settings {
		before, after, ok := strings.Cut(x.Name, Tag)
		if !ok || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) || len(name) <= len(before)+len(after) {
			continue
		}
		if t := name[len(before) : len(name)-len(after)]; ValidTag(t) && (found == nil || len(t) < len(tag)) {
			found, tag = &s.settings[i], t
		}
	}
	return found, tag
}

// ValidTag reports whether s can stand in the place of Tag.
func ValidTag(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && s[0] != '_' && s[len(s)-1] != '_'
}

// Invalid is an error of the settings.
func Invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeInvalid, format, args...)
}

// value is the setting's text: given, from its file, or the default. An empty value is none.
func (x Setting) value(env map[string]string) (string, error) {
	value, file := env[x.Name], ""
	if x.Secret {
		file = env[x.Name+"_FILE"]
	}
	switch {
	case value != "" && file != "":
		return "", fmt.Errorf("it is given twice, also as %s_FILE", x.Name)
	case value != "":
		return value, nil
	case file == "":
		return x.Default, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("its file cannot be read: %w", err)
	}
	value = strings.TrimRight(string(b), "\r\n")
	if value == "" {
		return "", fmt.Errorf("its file %s is empty", file)
	}
	return value, nil
}

func (x Setting) complaint(value string, err error) string {
	if x.Secret || x.hidden || value == "" {
		return fmt.Sprintf("%s: %v.", x.Name, err)
	}
	return fmt.Sprintf("%s cannot be %q: %v.", x.Name, value, err)
}

// unknown warns of names that no set has, with the nearest that one has.
func unknown(env map[string]string, sets []*Set) []string {
	var names []string
	for _, s := range sets {
		for _, x := range s.settings {
			names = append(names, x.Name)
			if x.Secret {
				names = append(names, x.Name+"_FILE")
			}
		}
	}
	var warnings []string
	for name := range env {
		tagged := slices.ContainsFunc(sets, func(s *Set) bool { x, _ := s.findTagged(name); return x != nil })
		if slices.Contains(names, name) || tagged || strings.HasPrefix(name, Prefix+"TEST_") {
			continue
		}
		w := "unknown setting " + redact.Plain(name)
		if near := nearest(name, names); near != "" {
			w += "; did you mean " + near + "?"
		}
		warnings = append(warnings, w)
	}
	slices.Sort(warnings)
	return warnings
}

// nearest is the known name with the fewest edits from name, or "" where none is near.
func nearest(name string, names []string) string {
	best, distance := "", 1+(len(name)-len(Prefix))/3
	for _, n := range names {
		if d := edits(name, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// Help lists the set for a program's --help.
func (s *Set) Help() string {
	var b strings.Builder
	for _, x := range s.settings {
		def := x.Default
		switch {
		case x.Secret:
			def = "secret; or " + strings.TrimPrefix(x.Name, Prefix) + "_FILE"
		case def == "":
			def = "none"
		}
		fmt.Fprintf(&b, "  %s (%s)\n      %s\n", x.Name, def, x.Help)
	}
	return b.String()
}

// Text takes any text.
func Text(s string) (string, error) { return s, nil }

// Integer takes whole numbers from least to most.
func Integer(least, most int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("a whole number from %d to %d is needed", least, most)
		}
		return n, nil
	}
}

// Every takes whole numbers of unit from least to most.
func Every(unit time.Duration, least, most int64) func(string) (time.Duration, error) {
	parse := Integer(least, most)
	return func(s string) (time.Duration, error) {
		n, err := parse(s)
		return time.Duration(n) * unit, err
	}
}

// Bool takes true and false.
func Bool(s string) (bool, error) {
	switch s {
	case "true", "1":
		return true, nil
	case "false", "0", "":
		return false, nil
	}
	return false, fmt.Errorf("true or false is needed")
}

// OneOf takes one of the words.
func OneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		return "", fmt.Errorf("one of %s is needed", strings.Join(words, ", "))
	}
}

// HTTPURL takes an http or https URL with a host and nothing behind its path; "" is nil.
func HTTPURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("a URL such as https://holdfast.example.com is needed")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// Prefixes takes a comma-separated list of addresses and networks.
func Prefixes(s string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			a, err := netip.ParseAddr(part)
			if err != nil {
				return nil, fmt.Errorf("addresses or networks such as 10.0.0.0/8, separated by commas, are needed")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		list = append(list, p.Masked())
	}
	return list, nil
}
