package transport

import (
	"context"
	"log/slog"
)

// debugHandler is the log of the protocol's library, whose news of each session is nothing that an operator asks for: what it says
// at info is said at debug.
type debugHandler struct{ slog.Handler }

// SDKLog is a log for the protocol's library: it says at debug what that says at info or above.
func SDKLog(log *slog.Logger) *slog.Logger { return slog.New(debugHandler{log.Handler()}) }

// Enabled implements slog.Handler.
func (q debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements slog.Handler.
func (q debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug) // also what it calls errors, which are those of clients
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
