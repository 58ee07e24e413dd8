package openapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/onecall-mcp/onecall/internal/secret"
)

const (
	leastHidden = 8   // bytes: a shorter secret would be found by chance
	longWord    = 16  // bytes of a secret that is letters only, from which on it is no common word
	mostHidden  = 256 // spellings: tokens that are renewed all the time push out the oldest of them
	hidden      = "[redacted]"
)

// secrets are the spellings of the credentials that an answer or an error must not show, though a service may repeat
// what it was sent.
type secrets struct {
	mu        sync.RWMutex
	lasting   [][]byte // of the configuration
	passing   [][]byte // of tokens, oldest first
	populated bool
}

// newSecrets collects the secrets of the configuration.
func newSecrets(o *Options) *secrets {
	s := &secrets{}
	for _, c := range o.Auth {
		s.lasting = append(s.lasting, spellings(c.Value)...)
		s.lasting = append(s.lasting, spellings(c.Password)...)
		s.lasting = append(s.lasting, spellings(c.ClientSecret)...)
		for user, password := range map[string]string{c.Username: c.Password, url.QueryEscape(c.ClientID): url.QueryEscape(c.ClientSecret)} {
			if password != "" {
				s.lasting = append(s.lasting, spellings(base64.StdEncoding.EncodeToString([]byte(user+":"+password)))...)
			}
		}
	}
	for name, value := range o.Headers {
		if !secret.Name(name) {
			continue
		}
		s.lasting = append(s.lasting, spellings(value)...)
		if _, after, found := strings.Cut(value, " "); found {
			s.lasting = append(s.lasting, spellings(strings.TrimSpace(after))...)
		}
	}
	slices.SortFunc(s.lasting, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b)) })
	s.lasting = slices.CompactFunc(s.lasting, bytes.Equal)
	s.populated = len(s.lasting) > 0
	return s
}

// spellings are a secret as an answer may repeat it: as it is, and escaped for JSON or a URL. What is short, or but a
// word, is not looked for: "password" is a name in many answers.
func spellings(secret string) [][]byte {
	word := !strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(secret) < leastHidden || word && len(secret) < longWord {
		return nil
	}
	all := [][]byte{[]byte(secret)}
	add := func(spelling string) {
		if spelling != secret {
			all = append(all, []byte(spelling))
		}
	}
	add(url.QueryEscape(secret))
	add(escapeAll(secret))
	if escaped, err := json.Marshal(secret); err == nil {
		add(string(escaped[1 : len(escaped)-1]))
	}
	add(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret))
	return all
}

// add notes one more secret.
func (s *secrets) add(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing = append(s.passing, spellings(secret)...)
	if over := len(s.passing) - mostHidden; over > 0 {
		s.passing = slices.Clone(s.passing[over:])
	}
	s.populated = true
}

// hide gives data without the secrets; the data itself where there are none in it.
func (s *secrets) hide(data []byte) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.populated || len(data) == 0 {
		return data
	}
	for _, list := range [][][]byte{s.lasting, s.passing} {
		for _, secret := range list {
			if bytes.Contains(data, secret) {
				data = bytes.ReplaceAll(data, secret, inPlaceOf(secret))
			}
		}
	}
	return data
}

// inPlaceOf is what is shown for a secret. One that may be found within a JSON number leaves a number.
func inPlaceOf(secret []byte) []byte {
	if bytes.ContainsFunc(secret, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) }) {
		return []byte(hidden)
	}
	return bytes.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '9'
		}
		return r
	}, secret)
}
