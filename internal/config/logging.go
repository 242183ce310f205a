package config

import (
	"io"
	"log/slog"
)

func logging(s *Set, level, format *string) {
	Add(s, level, "LOG_LEVEL", "info", "debug, info, warn or error.", OneOf("debug", "info", "warn", "error"))
	Add(s, format, "LOG_FORMAT", "text", "text or json.", OneOf("text", "json"))
}

// Logger logs to w as the settings LOG_LEVEL and LOG_FORMAT say. A level that it does not know is info: the settings
// could then not be read, and what is wrong with them is about to be said.
func Logger(w io.Writer, level, format string) *slog.Logger {
	var least slog.Level
	if least.UnmarshalText([]byte(level)) != nil {
		least = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
