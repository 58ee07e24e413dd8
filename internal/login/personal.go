package login

import (
	"context"
	"sync"
	"time"
)

// Personal is the login of one caller to a server that is called as its callers. Many goroutines may use it.
type Personal struct {
	h *handler

	mu    sync.Mutex // held while the store is read
	read  time.Time  // when it was read last
	noted string     // the ID that Refresh has found last
}

// NewPersonal returns the login in the store of o, if there is one. Errors: those of Handler.
func NewPersonal(o *Options) (*Personal, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return &Personal{h: &handler{server: s, now: time.Now}}, nil
}

// recheck is how long a login is not read again, which another process may have changed.
const recheck = time.Second

// Refresh reads the login again, unless it has just been read; now: in any case. It reports whether there is another login than it found
// last. If the store cannot be read, what is known counts.
func (p *Personal) Refresh(ctx context.Context, now bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.h
	if at := h.now(); now || at.Sub(p.read) >= recheck {
		h.mu.Lock()
		before := h.current
		h.mu.Unlock()
		r, err := h.latest(ctx)
		h.mu.Lock()
		if p.read = at; err == nil && h.current == before { // else a renewal was faster
			h.current, h.loaded = r, true
		}
		h.mu.Unlock()
	}
	id := p.ID()
	changed, p.noted = id != p.noted, id
	return changed
}

// ID returns what tells the login from earlier and later ones, whatever tokens it gets; "": there is none, or it has ended and cannot be
// renewed.
func (p *Personal) ID() string {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	r := p.h.current
	if r == nil || r.Access == p.h.dead || r.Refresh == "" && !r.Expires.IsZero() && !p.h.now().Before(r.Expires) {
		return ""
	}
	return r.ID
}

// Token returns a token of the login with this ID, and another one than refused, which the server has refused. Errors: denied if there is
// no such login any more or it cannot be renewed, and unavailable, timeout or cancelled.
func (p *Personal) Token(ctx context.Context, id, refused string) (string, error) {
	r := p.h.currentLogin(ctx)
	var err error
	switch {
	case r == nil || r.ID != id:
	case r.Access == refused:
		r, err = p.h.renew(ctx, refused)
	default:
		r, err = p.h.usable(ctx, r)
	}
	if err != nil {
		return "", err
	}
	if r == nil || r.ID != id {
		return "", p.h.deny("the login of this call is over: %s", p.h.remedy())
	}
	return r.Access, nil
}
