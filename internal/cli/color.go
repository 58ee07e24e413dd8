package cli

import (
	"strings"

	"github.com/fatih/color"
)

// The colors of words. Whether a stream has colors is decided by newStreams, and not by the library.
var (
	green  = newColor(color.FgGreen)
	yellow = newColor(color.FgYellow)
	red    = newColor(color.FgRed)
	faint  = newColor(color.Faint)
	bold   = newColor(color.Bold)
)

func newColor(attribute color.Attribute) *color.Color {
	c := color.New(attribute)
	c.EnableColor()
	return c
}

// paint colors a text that goes to stdout, if it shows colors.
func (s *streams) paint(c *color.Color, text string) string { return paintIf(s.colors, c, text) }

// paintErr colors a text that goes to stderr, if it shows colors.
func (s *streams) paintErr(c *color.Color, text string) string { return paintIf(s.errColors, c, text) }

func paintIf(colors bool, c *color.Color, text string) string {
	if !colors || c == nil || text == "" {
		return text
	}
	return c.Sprint(text)
}

// statusColor returns the color of a status or outcome, of which text is or begins with the word; nil: it has none.
func statusColor(text string) *color.Color {
	if text == unknownOutcome {
		return yellow
	}
	word, _, _ := strings.Cut(text, " ")
	switch strings.TrimSuffix(word, ",") {
	case "ok", "applied", "ready":
		return green
	case "failed", "denied", "fail":
		return red
	case "waiting", "approved", "interrupted", "running", "sent_unknown", "warn", "starting", "retrying":
		return yellow
	case "skipped", "reused", "undone", "not_sent":
		return faint
	}
	return nil
}

// effectColor returns the color of an effect: what only reads has none.
func effectColor(effect string) *color.Color {
	switch effect {
	case "write":
		return yellow
	case "destroy":
		return red
	}
	return nil
}
