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

// maxQuoted bounds a text that a message quotes, maxErrorText the server's text in an error, and maxLogLine a line of the log, in bytes.
const maxQuoted, maxErrorText, maxLogLine = 200, 2000, 4096

// quoted returns a word from outside, clipped and quoted for a message.
func quoted(word string) string { return strconv.Quote(fault.Clip(word, maxQuoted)) }

const ellipsis = "…"

// scrubber removes the secrets of the options from texts of the server: stderr, error messages, URLs in errors.
type scrubber struct {
	*secret.Scrubber
	url, address string // the server's URL and its replacement; "": none
}

func newScrubber(o *Options) *scrubber {
	given := o.Secrets
	if given == nil {
		given = secretsOf(o)
	}
	var secrets []string
	for _, value := range given {
		secrets = append(secrets, visible(value))
	}
	s := &scrubber{url: o.URL}
	if o.URL != "" {
		secrets, s.address = append(secrets, o.URL), o.address()
	}
	s.Scrubber = secret.New(secrets)
	return s
}

// secretsOf returns the secrets of options that do not name them.
func secretsOf(o *Options) (secrets []string) {
	for name, value := range o.Env {
		if secret.Variable(name, value) {
			secrets = append(secrets, value)
		}
	}
	for _, value := range o.Headers {
		secrets = append(secrets, value)
	}
	if u, err := url.Parse(o.URL); err == nil {
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
	}
	return secrets
}

// clean removes secrets and control characters.
func (s *scrubber) clean(text string) string { return s.Text(visible(text)) }

// Text removes secrets and replaces the server's URL by its address.
func (s *scrubber) Text(text string) string {
	if s.url != "" {
		text = strings.ReplaceAll(text, s.url, s.address)
	}
	return s.Scrubber.Text(text)
}

// JSON removes secrets from a JSON value.
func (s *scrubber) JSON(value []byte) []byte {
	if s.url != "" && bytes.Contains(value, []byte(s.url)) {
		value = bytes.ReplaceAll(value, []byte(s.url), []byte(s.address))
	}
	return s.Scrubber.JSON(value)
}

// excerpt returns the beginning of a text without secrets, at most n bytes and an ellipsis. It reads only the beginning of a long
// text, and never cuts a secret.
func (s *scrubber) excerpt(text string, n int) string {
	window := n + 2*s.MaxEncoded() + utf8.UTFMax
	if len(text) <= window {
		return fault.Clip(s.clean(text), n)
	}
	prefix := visible(text[:wholeRunes(text[:window])])
	clean := s.Text(prefix[:s.SafePrefix(prefix)])
	if len(clean) <= n {
		return clean + ellipsis
	}
	return fault.Clip(clean, n)
}

// wholeRunes returns the length of text without an incomplete character at its end.
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

// visible removes control characters other than newlines and tabs.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
