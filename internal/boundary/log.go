package boundary

import (
	"context"
	"log/slog"
	"time"
)

// LogInspection writes the one record of an inspection; subject says what it
// was about, and code is "" for one that was answered.
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

// LogRepeat writes the one record of a repeat that is about to be waited for.
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
