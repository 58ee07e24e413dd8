package transport

import (
	"context"
	"log/slog"
)

// debugHandler lowers the SDK's log to debug: operators do not need its lines about each session.
type debugHandler struct{ slog.Handler }

// SDKLog returns a logger for the SDK that logs at debug at most.
func SDKLog(log *slog.Logger) *slog.Logger { return slog.New(debugHandler{log.Handler()}) }

// Enabled implements slog.Handler.
func (q debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements slog.Handler.
func (q debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug) // what the SDK logs as errors are clients' mistakes
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{q.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (q debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{q.Handler.WithGroup(name)}
}
