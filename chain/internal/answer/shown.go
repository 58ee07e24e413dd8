package answer

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/onecall-mcp/onecall/steps"
)

// maxShown is how many results a session remembers that its client was shown: the last ones. Of each it has only the token.
const maxShown = 256

// shown is what the client of a session was shown; nil: there is no session.
type shown struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[[sha256.Size]byte, string] // by call (see callID)
}

type shownKey struct{}

func shownTo(session *steps.Session) *shown {
	if session == nil {
		return nil
	}
	return session.Value(shownKey{}, func() any {
		tokens, _ := simplelru.NewLRU[[sha256.Size]byte, string](maxShown, nil) // fails only for a size below 1
		return &shown{tokens: tokens}
	}).(*shown)
}

// token returns the token of the last result of a call; "": none is remembered.
func (s *shown) token(call [sha256.Size]byte) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := s.tokens.Get(call)
	return token
}

// add remembers the token of a call's result.
func (s *shown) add(call [sha256.Size]byte, token string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.Add(call, token)
}
