package mcp

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

const maxQuoted, maxErrorText, maxLogLine = 200, 2000, 4096

// quoted shows a foreign word in a message.
func quoted(word string) string { return strconv.Quote(fault.Clip(word, maxQuoted)) }

const ellipsis = "…"

// scrubber takes the secrets of the options out of texts that others wrote: stderr, error messages, URLs in errors.
type scrubber struct {
	*secret.Scrubber
	url, where string // the server's URL, and what is shown of it; "": it has none
}

func newScrubber(o *Options) *scrubber {
	var secrets []string
	for name, value := range o.Env {
		if secret.Variable(name, value) {
			secrets = append(secrets, visible(value))
		}
	}
	for _, value := range o.Headers {
		secrets = append(secrets, visible(value))
	}
	if u, err := url.Parse(o.URL); err == nil {
		for _, values := range u.Query() {
			for _, value := range values {
				secrets = append(secrets, visible(value))
			}
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, visible(password))
		}
	}
	s := &scrubber{url: o.URL}
	if o.URL != "" {
		secrets, s.where = append(secrets, o.URL), o.where()
	}
	s.Scrubber = secret.New(secrets)
	return s
}

// clean takes out the secrets, and what a terminal would not show.
func (s *scrubber) clean(text string) string { return s.Text(visible(text)) }

// Text takes out the secrets, and shows where the server is in the place of its URL.
func (s *scrubber) Text(text string) string {
	if s.url != "" {
		text = strings.ReplaceAll(text, s.url, s.where)
	}
	return s.Scrubber.Text(text)
}

// JSON takes the secrets out of a JSON value.
func (s *scrubber) JSON(value []byte) []byte {
	if s.url != "" && bytes.Contains(value, []byte(s.url)) {
		value = bytes.ReplaceAll(value, []byte(s.url), []byte(s.where))
	}
	return s.Scrubber.JSON(value)
}

// excerpt is the beginning of a text without its secrets, of at most n bytes and an ellipsis. Of a long text it looks at
// the beginning only, which it does not cut within a secret.
func (s *scrubber) excerpt(text string, n int) string {
	window := n + 2*s.Longest() + utf8.UTFMax
	if len(text) <= window {
		return fault.Clip(s.clean(text), n)
	}
	begin := visible(text[:wholeRunes(text[:window])])
	clean := s.Text(begin[:s.Settled(begin)])
	if len(clean) <= n {
		return clean + ellipsis
	}
	return fault.Clip(clean, n)
}

// wholeRunes is the length of text without a character that is cut at its end.
func wholeRunes(text string) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// visible is a text without what a terminal would not show.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
