package boundary

import (
	"context"
	"log/slog"
	"time"
)

// LogInspection writes the one record of an inspection. subject names what was
// asked about, and code is "" where the inspection succeeded.
func LogInspection(ctx context.Context, logger *slog.Logger, start time.Time, subject slog.Attr, code string, status int) {
	if logger == nil {
		return
	}
	level, message := slog.LevelInfo, "inspection answered"
	if code != "" {
		level, message = slog.LevelWarn, "inspection failed"
	}
	logger.LogAttrs(ctx, level, message,
		subject,
		slog.String("code", code),
		slog.Int("status", status),
		slog.Duration("duration", time.Since(start)))
}

// LogRepeat writes the record of a repeat, before the wait for it begins.
func LogRepeat(ctx context.Context, logger *slog.Logger, subject slog.Attr, code string, status int, wait time.Duration) {
	if logger == nil {
		return
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "inspection repeats a request",
		subject,
		slog.String("code", code),
		slog.Int("status", status),
		slog.Duration("wait", wait))
}
