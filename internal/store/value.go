package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// micros is how a time is kept: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the time that micros kept.
func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// raw is a JSON document as it was given; nil for none.
func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// encode makes the JSON of a row's small parts.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding a %T: %w", v, err)
	}
	return string(b), nil
}

func decode(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("a stored %T cannot be read: %w", v, err)
	}
	return nil
}

func noun2code(noun string) string { return strings.ReplaceAll(noun, " ", "_") }
