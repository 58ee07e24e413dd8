package credential

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Logins are those of callers to one source.
type Logins struct {
	Open func(caller string) Login // returns that of a caller; nil: the caller can have none
	Help string                    // what callers can do to log in
}

// Login is what a caller has logged in to a source with. Many goroutines may use it.
type Login interface {
	// Refresh reads it again if it was not read lately; now: in any case. It reports whether ID has changed since the last call.
	Refresh(ctx context.Context, now bool) (changed bool)
	// ID tells the login from earlier and later ones, whatever tokens it gets; "": the caller is not logged in.
	ID() string
	// Token returns a token of the login with this ID, and another one than refused, which the service has refused. Errors are coded.
	Token(ctx context.Context, id, refused string) (string, error)
}

// readTimeout bounds how long a request waits to learn whether its caller is logged in.
const readTimeout = 2 * time.Second

// slot is where the login of one caller to one source is. A caller's rights name the slot, whether there is a login or not, so that
// sessions outlast a login. What belongs to the login has the digest of its credential, which is that of the slot, a dot, and the login's
// ID.
type slot struct {
	Login
	caller, name, digest string

	mu      sync.Mutex
	used    time.Time
	current *steps.Credential // of the last login; nil: none was asked for
}

// credential returns that of the login; nil: the caller is not logged in.
func (s *slot) credential() *steps.Credential {
	id := s.ID()
	if id == "" {
		return nil
	}
	digest := s.digest + "." + id
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || s.current.Digest != digest {
		s.current = loginCredential(s.name, digest, id, s.Login)
	}
	return s.current
}

// use notes that a request of the caller is here.
func (s *slot) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
}

func (s *slot) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.used) >= maxIdle
}

// loginCredential returns the credential whose calls carry the tokens of a login.
func loginCredential(name, digest, id string, l Login) *steps.Credential {
	var secrets hidden
	var last, refused atomic.Pointer[string]
	none := ""
	last.Store(&none)
	refused.Store(&none)
	return &steps.Credential{Name: name, Digest: digest, Scrubber: &secrets, Kept: true,
		Headers: func(ctx context.Context) (map[string]string, error) {
			token, err := l.Token(ctx, id, *refused.Load())
			if err != nil {
				own := *fault.From(err, "") // others may wait for the same token
				return nil, unsent(&own, true)
			}
			if before := last.Swap(&token); *before != token {
				secrets.add(token)
			}
			return map[string]string{"Authorization": bearer + token}, nil
		},
		Refused: func(headers map[string]string) bool {
			token := strings.TrimPrefix(headers["Authorization"], bearer)
			refused.Store(&token)
			return token != ""
		},
	}
}

// bringLogin returns the ID of the slot of a caller; "": the caller can have none.
func (t *Table) bringLogin(r *Rule, caller string) string {
	digest := hex.EncodeToString(t.MAC([]byte("login"), []byte(caller), []byte(r.Name)))
	id := (&steps.Credential{Name: r.Name, Digest: digest}).ID()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.slots.Get(id); ok || t.openSlot(r, caller, digest) {
		return id
	}
	return ""
}

// openSlot adds the slot of a caller, unless the caller can have none. The caller of it holds t.mu.
func (t *Table) openSlot(r *Rule, caller, digest string) bool {
	login := r.Login.Open(caller)
	if login == nil {
		return false
	}
	s := &slot{Login: login, caller: caller, name: r.Name, digest: digest, used: time.Now()}
	t.slots.Add((&steps.Credential{Name: r.Name, Digest: digest}).ID(), s)
	return true
}

// takeSlots opens the slots of another table again: how callers log in may have changed.
func (t *Table) takeSlots(before *Table) {
	before.mu.Lock()
	former := before.slots.Values()
	before.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range former {
		for i := range t.rules {
			if r := &t.rules[i]; r.Name == s.name && r.Login != nil {
				t.openSlot(r, s.caller, s.digest)
			}
		}
	}
}

// slot returns the slot with this ID; nil: there is none.
func (t *Table) slot(id string) *slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.slots.Get(id)
	return s
}

// Refresh implements steps.Credentials.
func (t *Table) Refresh(ids string) { t.refresh(ids, false) }

// Reread reads the logins among some credentials again: they may have changed just now.
func (t *Table) Reread(ids string) { t.refresh(ids, true) }

func (t *Table) refresh(ids string, now bool) {
	if !t.logins {
		return
	}
	changed := false
	for id := range strings.FieldsSeq(ids) {
		if s := t.slot(id); s != nil {
			s.use()
			ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
			changed = s.Refresh(ctx, now) || changed
			cancel()
		}
	}
	if changed && t.Changed != nil {
		t.Changed()
	}
}

// findLogin returns the credential of a login by the digest of its slot or by its own; known: it is one of a slot.
func (t *Table) findLogin(name, digest string) (c *steps.Credential, known bool) {
	if !t.logins {
		return nil, false
	}
	ofSlot, _, own := strings.Cut(digest, ".")
	s := t.slot((&steps.Credential{Name: name, Digest: ofSlot}).ID())
	if s == nil {
		return nil, false
	}
	if c = s.credential(); c == nil || own && (c.Digest != digest || s.isIdle()) {
		return nil, true
	}
	return c, true
}
