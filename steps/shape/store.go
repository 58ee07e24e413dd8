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

// maxFunctions bounds the functions of a store; saveAfter is how long new data waits to be written.
const (
	maxFunctions = 512
	saveAfter    = 10 * time.Second
)

// Options configure a store. nil is the zero value.
type Options struct {
	// Path is the file that holds the shapes; "": in memory only. Its folder is created when it is needed.
	Path string
	// Warn receives only the first problem with the file, as unavailable. The store continues in memory. May be nil.
	Warn func(*fault.Error)
}

// Store holds the shapes of functions. Many goroutines may use it, and many processes may share its file.
type Store struct {
	options Options
	load    func() // reads the file, once

	saving    sync.Mutex // held while the file is written; acquired before mu
	mu        sync.Mutex
	salt      []byte
	functions map[string]*function // the functions by a hash of their identity
	observed  map[string]bool      // keys of functions whose results this process has read
	timer     *time.Timer          // calls save; nil: nothing waits to be written
	warned    bool
	closed    bool
}

// Open creates a store. Its file is read when the first function is wrapped.
func Open(o *Options) *Store {
	s := &Store{functions: map[string]*function{}, observed: map[string]bool{}, salt: make([]byte, 8)}
	if o != nil {
		s.options = *o
	}
	_, _ = rand.Read(s.salt) // never fails
	s.load = sync.OnceFunc(s.read)
	return s
}

// Learn returns a clone of a registry that learns the shapes of its functions' results, and shows them. identity returns the identity of a
// function, which is not secret and is the same for the same function of the same source. A function with the identity "" is not learned.
// Learn may be called for many registries.
func (s *Store) Learn(r *steps.Registry, identity func(*steps.Spec) string) *steps.Registry {
	return r.Learn(func(spec *steps.Spec, call steps.Call) (steps.Call, func() *steps.ResultShape) {
		id := identity(spec)
		if id == "" {
			return nil, nil
		}
		f := s.function(id)
		return s.observeCalls(f, call), f.published.Load
	})
}

// observeCalls wraps a call to learn from its results, unless they lack what was not asked for.
func (s *Store) observeCalls(f *function, call steps.Call) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		result, err := call(ctx, args)
		if err == nil && !steps.IsPartialResult(ctx) && f.shouldRead() && s.admits(f) && f.observe(result, steps.CallbacksOf(ctx).Caller) {
			s.scheduleSave()
		}
		return result, err
	}
}

// function returns the function of an identity.
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

// admits reports whether this process learns the function's shape: only the first maxFunctions functions with results are learned.
func (s *Store) admits(f *function) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.observed) < maxFunctions {
		s.observed[f.key] = true
	}
	return s.observed[f.key]
}

// scheduleSave schedules a write of the file.
func (s *Store) scheduleSave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Path != "" && s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(saveAfter, s.save)
	}
}

// Close writes new data and waits for a running save. It returns nil: Options.Warn receives a problem with the file. Functions may still be
// called; their results are then learned in memory only.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.save()
	return nil
}

func (s *Store) warn(f *fault.Error) {
	s.mu.Lock()
	before := s.warned
	s.warned = true
	s.mu.Unlock()
	if !before && s.options.Warn != nil {
		s.options.Warn(f)
	}
}
