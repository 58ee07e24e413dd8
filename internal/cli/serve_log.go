package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// logs is what serve writes to stderr: lines of text, or JSON. Nothing in it is a secret of the configuration.
type logs struct {
	handler  slog.Handler
	json     bool
	redactor *app.Redactor // knows nothing before a configuration is open, when none of it can be logged
}

// newLogs begins the logs. In JSON all else that the command writes to stderr is a record too, notes and warnings of any level.
func (c *cli) newLogs(f *serveFlags) *logs {
	l := &logs{redactor: &c.redactor}
	options := &slog.HandlerOptions{Level: f.level(), ReplaceAttr: l.replace}
	to := &wholeLines{l: l, w: c.err}
	if f.logFormat != "json" {
		l.handler = slog.NewTextHandler(to, options)
		return l
	}
	l.handler, l.json = slog.NewJSONHandler(to, options), true
	every := *options
	every.Level = slog.LevelDebug
	c.err = &noted{slog.NewJSONHandler(to, &every)}
	return l
}

// takeOver makes the loggers that libraries use by default write to these logs: net/http quotes what an upstream sent, and
// upstreams repeat credentials. They are those of the process, so only main and serve call it.
func (l *logs) takeOver() {
	slog.SetDefault(slog.New(l.handler))
	log.SetFlags(0)
	log.SetOutput(libraryLines{slog.NewLogLogger(l.handler, slog.LevelWarn).Writer()})
}

// libraryLines are the lines of package log.
type libraryLines struct{ io.Writer }

// unsolicited is what net/http logs when a connection is not silent between two calls, up to the bytes that came. The last
// of them may be the beginning of a secret, which no scrubber finds.
const unsolicited = "Unsolicited response received on idle HTTP channel"

// Write implements io.Writer.
func (l libraryLines) Write(line []byte) (int, error) {
	shown := line
	if bytes.HasPrefix(line, []byte(unsolicited)) {
		shown = []byte(unsolicited)
	}
	if _, err := l.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(line), nil
}

// logger logs with the chain and the step that a context is of.
func (l *logs) logger() *slog.Logger { return slog.New(telemetry.LogHandler(l.handler)) }

// refused logs each fault of a configuration by itself where logs are JSON; what is told so needs no other words.
func (l *logs) refused(err error) error {
	var config *config.Error
	if !l.json || !errors.As(err, &config) {
		return err
	}
	for _, f := range config.Faults {
		attributes := []any{"file", config.File, "code", string(f.Code), "at", f.At}
		if f.Line > 0 {
			attributes = append(attributes, "line", f.Line, "column", f.Column)
		}
		if len(f.Nearest) > 0 {
			attributes = append(attributes, "nearest", f.Nearest)
		}
		slog.New(l.handler).Error(f.Message, attributes...)
	}
	return answered(exitConfiguration)
}

// text is a text without secrets.
func (l *logs) text(text string) string { return l.redactor.Text(text) }

// replace takes secrets out of a value before it is quoted, which may change how they are spelt.
func (l *logs) replace(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(l.text(a.Value.String()))
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(l.text(value.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(l.text(value.String()))
		}
	}
	return a
}

// wholeLines writes the lines of logs, each by itself, without the secrets that are left in them.
type wholeLines struct {
	l  *logs
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (w *wholeLines) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.w, w.l.text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// noted makes a record of each note that the command writes for a person.
type noted struct{ handler slog.Handler }

// Write implements io.Writer.
func (n *noted) Write(note []byte) (int, error) {
	text, level := string(bytes.TrimSpace(note)), slog.LevelInfo
	if warning, is := strings.CutPrefix(text, "warning: "); is {
		text, level = warning, slog.LevelWarn
	}
	if failed, is := strings.CutPrefix(text, "onecall: "); is {
		text, level = failed, slog.LevelError
	}
	if text == "" {
		return len(note), nil
	}
	if err := n.handler.Handle(context.Background(), slog.NewRecord(time.Now(), level, text, 0)); err != nil {
		return 0, err
	}
	return len(note), nil
}
