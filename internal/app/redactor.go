package app

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Redactor removes secrets from what is logged and warned of: those of every configuration that was read, as a secret that
// was replaced may still be one. The zero value knows none.
type Redactor struct {
	scrubber atomic.Pointer[secret.Scrubber]

	mu      sync.Mutex
	secrets []string
}

// Text is a text without the secrets.
func (r *Redactor) Text(text string) string { return r.scrubber.Load().Text(text) }

// redacted is a fault without the secrets.
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
