package app

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Redactor removes secrets from logs and warnings. It knows the secrets of every configuration that was read, since a replaced secret may
// still be valid. The zero value knows none.
type Redactor struct {
	scrubber atomic.Pointer[secret.Scrubber]

	mu      sync.Mutex
	secrets []string
}

// Text returns text without secrets.
func (r *Redactor) Text(text string) string { return r.scrubber.Load().Text(text) }

// redacted returns a fault without secrets.
func (r *Redactor) redacted(f *fault.Error) *fault.Error {
	return steps.ScrubFault(r.scrubber.Load(), f)
}

// learn adds secrets.
func (r *Redactor) learn(secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, secrets...)
	slices.Sort(r.secrets)
	r.secrets = slices.Compact(r.secrets)
	r.scrubber.Store(secret.New(r.secrets))
}
