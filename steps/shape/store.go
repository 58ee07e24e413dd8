package shape

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// maxFunctions bounds the functions of a store; saveAfter is how long what is new waits to be written.
const (
	maxFunctions = 512
	saveAfter    = 10 * time.Second
)

// Options configure a store. nil is the zero value.
type Options struct {
	// Path is the file in which the shapes are kept; "": in memory only. Its folder is made when it is needed.
	Path string
	// Warn gets what is wrong with the file, once: unavailable. The store goes on in memory. nil: nobody listens.
	Warn func(*fault.Error)
}

// Store keeps the shapes of functions. It may be used by many goroutines, and its file by many processes.
type Store struct {
	options Options
	load    func() // reads the file, once

	saving    sync.Mutex // held while the file is written; taken before mu
	mu        sync.Mutex
	salt      []byte
	functions map[string]*function // by key
	learnt    map[string]bool      // keys of the functions whose results this process has read
	timer     *time.Timer          // nil: nothing waits to be written
	warned    bool
	closed    bool
}

// Open makes a store. Its file is read when the first function is wrapped.
func Open(o *Options) *Store {
	s := &Store{functions: map[string]*function{}, learnt: map[string]bool{}, salt: make([]byte, 8)}
	if o != nil {
		s.options = *o
	}
	_, _ = rand.Read(s.salt) // never fails
	s.load = sync.OnceFunc(s.read)
	return s
}

// Learn returns a clone of a registry that learns from the results of its functions, and shows what was learnt. identity
// gives what a shape belongs to: the same for the same function of the same source, and no secret; "": nothing is learnt
// of the function. It may be called for many registries.
func (s *Store) Learn(r *steps.Registry, identity func(*steps.Spec) string) *steps.Registry {
	return r.Learn(func(spec *steps.Spec, call steps.Call) (steps.Call, func() *steps.Seen) {
		id := identity(spec)
		if id == "" {
			return nil, nil
		}
		f := s.function(id)
		return s.learning(f, call), f.seen.Load
	})
}

// learning is a call whose results are learnt from.
func (s *Store) learning(f *function, call steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		result, err := call(ctx, args)
		if err == nil && f.due() && s.admits(f) && f.observe(result, steps.CallbacksOf(ctx).Caller) {
			s.changed()
		}
		return result, err
	}
}

// function is that of an identity.
func (s *Store) function(identity string) *function {
	s.load()
	sum := sha256.Sum256([]byte(identity))
	key := hex.EncodeToString(sum[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.functions[key] == nil {
		s.functions[key] = newFunction(key, s.salt)
	}
	return s.functions[key]
}

// admits reports whether the function is one of those that this process learns of.
func (s *Store) admits(f *function) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.learnt) < maxFunctions {
		s.learnt[f.key] = true
	}
	return s.learnt[f.key]
}

// changed has the file be written soon.
func (s *Store) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Path != "" && s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(saveAfter, s.save)
	}
}

// Close writes what is new, and waits for a save that has begun. Functions may still be called; what they give then is
// learnt in memory only.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.save()
	return nil
}

func (s *Store) warn(f *fault.Error) {
	s.mu.Lock()
	told := s.warned
	s.warned = true
	s.mu.Unlock()
	if !told && s.options.Warn != nil {
		s.options.Warn(f)
	}
}
