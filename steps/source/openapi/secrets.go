package openapi

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/internal/secret"
)

// maxTokens bounds the remembered tokens; a new one replaces the oldest.
const maxTokens = 64

// secrets are credentials that an answer or an error must not show. A service may repeat them in its answers.
type secrets struct {
	configured []string
	scrubber   atomic.Pointer[secret.Scrubber]

	mu     sync.Mutex
	tokens []string // oldest first
}

// newSecrets collects the secrets of the configuration.
func newSecrets(o *Options) *secrets {
	s := &secrets{}
	for _, c := range o.Auth {
		s.configured = append(s.configured, c.secrets()...)
	}
	for name, value := range o.Headers {
		if secret.Name(name) {
			s.configured = append(s.configured, secret.UnusualComponents(value)...)
		}
	}
	s.scrubber.Store(secret.New(s.configured))
	return s
}

// add adds a token.
func (s *secrets) add(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, secret.UnusualComponents(token)...)
	s.tokens = slices.Clone(s.tokens[max(0, len(s.tokens)-maxTokens):])
	s.scrubber.Store(secret.New(slices.Concat(s.configured, s.tokens)))
}

// text returns a text without the secrets.
func (s *secrets) text(text string) string { return s.scrubber.Load().Text(text) }

// json returns a JSON value without the secrets.
func (s *secrets) json(value []byte) []byte { return s.scrubber.Load().JSON(value) }
