package transport

import (
	"context"
	"log/slog"
)

// quiet is the log of the protocol's library, whose news of each session is nothing that an operator asks for: what it says
// at info is said at debug.
type quiet struct{ slog.Handler }

// Quiet is a log for the protocol's library: it says at debug what that says at info or above.
func Quiet(log *slog.Logger) *slog.Logger { return slog.New(quiet{log.Handler()}) }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug) // also what it calls errors, which are those of clients
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
