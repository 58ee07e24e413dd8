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

// maxSlack is how much of a session's life passes at most before it is extended.
const maxSlack = 5 * time.Second

// Unused is how long a session must not have been used to give way to another.
const Unused = time.Minute

// Answers of the script that begins a session.
const (
	answerBegun   = 1
	answerAllFull = 2 // the sessions of all owners are as many as may be; else those of one are
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
	store   *Store
	own, id string // what stands for its owner and its id on the server
	keys    []string
}

// session gives what stands for a session that may be there.
func (s *Store) session(id, owner string) *session {
	n := &session{store: s, own: "{" + hashed(owner) + "}:", id: hashed(id)}
	key := s.client.Key(n.own + n.id)
	n.keys = []string{key, key + ":0", key + ":1", s.client.Key(n.own + "sessions"), s.client.Key("sessions")}
	return n
}

// slack is how much of a session's life passes before it is extended: so seldom does a use of it write.
func (s *Store) slack() time.Duration { return min(maxSlack, s.o.TTL/10) }

// run runs a script about the session, with what each of them is given before its own arguments.
func (n *session) run(ctx context.Context, server *redis.Client, script *redis.Script, own ...any) *redis.Cmd {
	life, slack := n.store.o.TTL.Milliseconds(), n.store.slack().Milliseconds()
	return script.Run(ctx, server, n.keys, append([]any{n.own, n.id, life, slack}, own...)...)
}

// gone is the error for a session that is not there, or not this owner's: nothing tells one from the other.
func gone() error {
	return fault.New(fault.TokenExpired, "There is no such session, or it has ended: begin a new one.")
}

// Begin begins a session of an owner, and gives its id: 26 letters and digits with 128 bits or more of chance. Where the
// owner has most sessions already, or all owners together have all (0: no bound), those give way that were not used for
// Unused, the longest unused first: few clients end theirs. It is busy where that does not make room. A use within 5 seconds
// (or a tenth of TTL, if that is less) of the one before is not taken note of.
func (s *Store) Begin(ctx context.Context, owner string, most, all int) (id string, err error) {
	id = rand.Text()
	n := s.session(id, owner)
	var answer int
	err = s.do(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		answer, err = n.run(ctx, server, begin, max(most, 0), max(all, 0), (Unused + s.slack()).Milliseconds(), s.client.Key("")).Int()
		return err
	})
	switch {
	case err != nil:
		return "", err
	case answer == answerAllFull:
		return "", fault.New(fault.Busy, "There are %d sessions of all callers, which is as many as may be: end one, or come again later.", all)
	case answer != answerBegun:
		return "", fault.New(fault.Busy, "You have %d sessions, which is as many as may be: end one, or come again later.", most)
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
