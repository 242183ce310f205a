package state

import (
	"holdfast.dev/holdfast/internal/fault"
)

// MaxNameBytes is the length of the longest name of a state.
const MaxNameBytes = 128

// CheckName refuses a name that is not 1 to 128 of A-Z a-z 0-9 . _ -, starting with a letter or digit. Names differ
// by their bytes and are never made into paths.
func CheckName(name string) error {
	ok := name != "" && len(name) <= MaxNameBytes
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = alphanumeric || i > 0 && (c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return fault.New(fault.Invalid, "invalid_name", "This is not a name of a state.").
			WithHint("A name has 1 to %d letters, digits, dots, underscores and hyphens, and starts with a letter or digit.", MaxNameBytes)
	}
	return nil
}
