package mcp

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
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
	replacer *strings.Replacer
	secrets  []string // what it takes out, the longest first
}

// leastSecret is the length below which a value is too common to be taken out of texts.
const leastSecret = 6

// randomLooking is what keys look like: one long word with a digit, and nothing of a path or a sentence.
var randomLooking = regexp.MustCompile(`^[A-Za-z0-9+_=.~-]*[0-9][A-Za-z0-9+_=.~-]*$`)

func newScrubber(o *Options) *scrubber {
	var secrets []string
	one := func(value string) {
		if value = visible(value); len(value) >= leastSecret {
			secrets = append(secrets, value)
			if escaped := strconv.Quote(value); strings.Contains(escaped, `\`) { // as JSON and messages show it, mostly
				secrets = append(secrets, escaped[1:len(escaped)-1])
			}
		}
	}
	add := func(value string) {
		one(value)
		if strings.Contains(value, "\n") { // a key of several lines is printed line by line
			for line := range strings.Lines(value) {
				one(strings.TrimSpace(line))
			}
		}
	}
	for name, value := range o.Env {
		if secret.Name(name) || len(value) >= 20 && randomLooking.MatchString(value) {
			add(value)
		}
	}
	for _, value := range o.Headers {
		add(value)
		_, word, _ := strings.Cut(value, " ") // Bearer X
		add(word)
	}
	if u, err := url.Parse(o.URL); err == nil {
		for _, values := range u.Query() {
			for _, value := range values {
				add(value)
				add(url.QueryEscape(value))
			}
		}
		if password, ok := u.User.Password(); ok {
			add(password)
			add(url.QueryEscape(password))
		}
	}
	// The longest first: a secret may hold another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	if o.URL != "" {
		pairs = append(pairs, o.URL, o.where())
	}
	secrets = slices.Compact(secrets)
	for _, secret := range secrets {
		pairs = append(pairs, secret, hidden)
	}
	if o.URL != "" {
		secrets = slices.Insert(secrets, 0, o.URL)
	}
	return &scrubber{strings.NewReplacer(pairs...), secrets}
}

// hidden stands where a secret was.
const hidden = "[redacted]"

// longest is the length of the longest secret.
func (s *scrubber) longest() (n int) {
	for _, secret := range s.secrets {
		n = max(n, len(secret))
	}
	return n
}

// clean takes out the secrets, and what a terminal would not show.
func (s *scrubber) clean(text string) string { return s.replacer.Replace(visible(text)) }

// excerpt is the beginning of a text without its secrets, of at most n bytes and an ellipsis. Of a long text it looks at
// the beginning only, which it does not cut within a secret.
func (s *scrubber) excerpt(text string, n int) string {
	window := n + 2*s.longest() + utf8.UTFMax
	if len(text) <= window {
		return fault.Clip(s.clean(text), n)
	}
	begin := visible(text[:wholeRunes(text[:window])])
	clean := s.replacer.Replace(begin[:s.settled(begin)])
	if len(clean) <= n {
		return clean + ellipsis
	}
	return fault.Clip(clean, n)
}

// settled is the length of the beginning of a text that can be cleaned before the rest is known: where it ends there is no
// secret that goes on behind it, be it whole, or begun at the end of the text.
func (s *scrubber) settled(text string) int {
	n := len(text)
	for moved := true; moved; {
		moved = false
		for _, secret := range s.secrets {
			for i := max(n-len(secret)+1, 0); i < n; i++ {
				if rest := text[i:]; strings.HasPrefix(rest, secret) || strings.HasPrefix(secret, rest) {
					n, moved = i, true
					break
				}
			}
		}
	}
	return n
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
