// Package logline writes the log of a process: each line as a whole and without secrets, for a reader that may be slow.
package logline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Options say what is logged and how. Scrub is required.
type Options struct {
	Level slog.Level               // the minimum
	JSON  bool                     // a line of JSON for each record, instead of text
	Scrub func(text string) string // removes secrets
}

// Log writes records as lines. Handler and Messages may be used by many goroutines.
type Log struct {
	Handler slog.Handler
	// Messages receives the messages that a command writes for a person. With JSON, each becomes a record, whatever the level. Without JSON,
	// Messages is the writer that New was given.
	Messages io.Writer

	scrub func(string) string
}

// New returns a log that writes to w. Without JSON, w must be safe for concurrent use.
func New(w io.Writer, o *Options) *Log {
	l := &Log{scrub: o.Scrub, Messages: w}
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: l.replace}
	to := &scrubbedLines{scrub: o.Scrub, w: w}
	if !o.JSON {
		l.Handler = slog.NewTextHandler(to, options)
		return l
	}
	l.Handler = slog.NewJSONHandler(to, options)
	messageOptions := *options
	messageOptions.Level = slog.LevelDebug
	l.Messages = &messageRecords{slog.NewJSONHandler(to, &messageOptions)}
	return l
}

// SetDefault makes the default loggers of packages slog and log, which libraries use, write to the log, so that secrets are removed:
// net/http quotes what an upstream sent, and upstreams repeat credentials. These loggers are global, so only main and serve call
// SetDefault.
func (l *Log) SetDefault() {
	slog.SetDefault(slog.New(l.Handler))
	log.SetFlags(0)
	log.SetOutput(libraryLines{slog.NewLogLogger(l.Handler, slog.LevelWarn).Writer()})
}

// replace removes secrets from a value before quoting changes how they are spelled.
func (l *Log) replace(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(l.scrub(a.Value.String()))
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(l.scrub(value.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(l.scrub(value.String()))
		}
	}
	return a
}

// libraryLines receives the lines of package log.
type libraryLines struct{ io.Writer }

// unsolicited begins the line that net/http logs when an idle connection receives bytes. The line then quotes some of the bytes, which may
// end within a secret, and no scrubber recognizes half a secret.
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

// scrubbedLines writes one line at a time, and removes the secrets that replace did not.
type scrubbedLines struct {
	scrub func(string) string

	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *scrubbedLines) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.w, s.scrub(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// messageRecords turns each message that a command writes for a person into a record.
type messageRecords struct{ handler slog.Handler }

// Write implements io.Writer.
func (n *messageRecords) Write(line []byte) (int, error) {
	text, level := string(bytes.TrimSpace(line)), slog.LevelInfo
	if warning, is := strings.CutPrefix(text, "warning: "); is {
		text, level = warning, slog.LevelWarn
	}
	if failed, is := strings.CutPrefix(text, "onecall: "); is {
		text, level = failed, slog.LevelError
	}
	if text == "" {
		return len(line), nil
	}
	if err := n.handler.Handle(context.Background(), slog.NewRecord(time.Now(), level, text, 0)); err != nil {
		return 0, err
	}
	return len(line), nil
}
