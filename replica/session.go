package replica

import (
	"context"
	"crypto/rand"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	maxSlack = 5 * time.Second // of a session's life that passes before it is extended
	idle     = 3               // the part of its life after which an unused session gives way: a third
)

var (
	//go:embed session.lua
	sessionScript string
	//go:embed begin.lua
	beginScript string
	//go:embed find.lua
	findScript string
	//go:embed end.lua
	endScript string

	begin = redis.NewScript(sessionScript + beginScript)
	find  = redis.NewScript(sessionScript + findScript)
	end   = redis.NewScript(sessionScript + endScript)
)

// session is a session of an owner as the server keeps it.
type session struct {
	store *Store
	id    string // what stands for its id on the server
	keys  []string
}

// session gives what stands for a session that may be there. All keys of an owner have one hash tag.
func (s *Store) session(id, owner string) *session {
	own := s.ownersKeys(owner)
	n := &session{store: s, id: hashed(id)}
	n.keys = []string{own + n.id, own + "sessions"}
	return n
}

// ownersKeys begins the keys of an owner's sessions.
func (s *Store) ownersKeys(owner string) string { return s.client.Key("{" + hashed(owner) + "}:") }

// run runs a script about the session, with what each of them is given before its own arguments.
func (n *session) run(ctx context.Context, server *redis.Client, script *redis.Script, own ...any) *redis.Cmd {
	life := n.store.o.TTL
	slack := min(maxSlack, life/10)
	return script.Run(ctx, server, n.keys, append([]any{n.id, life.Milliseconds(), slack.Milliseconds()}, own...)...)
}

// gone is the error for a session that is not there, or not this owner's: nothing tells one from the other.
func gone() error {
	return fault.New(fault.TokenExpired, "There is no such session, or it has ended: begin a new one.")
}

// Begin begins a session of an owner, and gives its id: 26 letters and digits with 128 bits or more of chance. Where the
// owner has most sessions already (0: no bound), those give way that were not used for a third of TTL, the longest unused
// first: few clients end theirs. It is limit_exceeded where that does not make room.
func (s *Store) Begin(ctx context.Context, owner string, most int) (id string, err error) {
	id = rand.Text()
	n := s.session(id, owner)
	var began bool
	err = s.do(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		began, err = n.run(ctx, server, begin, max(most, 0), (s.o.TTL / idle).Milliseconds(), s.ownersKeys(owner)).Bool()
		return err
	})
	switch {
	case err != nil:
		return "", err
	case !began:
		return "", fault.New(fault.Busy, "You have %d sessions, which is as many as may be: end one, or wait until one was not used for %v.", most, s.o.TTL/idle)
	}
	return id, nil
}

// Session gives what is kept of an owner's session, and lets it live on. It is token_expired where the owner has no such
// session, whether or not another has.
func (s *Store) Session(ctx context.Context, id, owner string) (steps.SessionState, error) {
	n := s.session(id, owner)
	var found bool
	err := s.do(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		found, err = n.run(ctx, server, find).Bool()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, gone()
	}
	return n, nil
}

// End ends an owner's session. It is no error that there is none.
func (s *Store) End(ctx context.Context, id, owner string) error {
	n := s.session(id, owner)
	return s.do(ctx, func(ctx context.Context, server *redis.Client) error {
		return n.run(ctx, server, end).Err()
	})
}
