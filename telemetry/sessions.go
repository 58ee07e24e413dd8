package telemetry

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// Sessions is what replicas of a server share: their sessions, and how often callers come. owner is who a session is of.
// What the store answers, its errors included, comes back as it is.
type Sessions interface {
	// Begin begins a session, of which the owner may have at most so many, and all owners together.
	Begin(ctx context.Context, owner string, most, all int) (id string, err error)
	// Session is what is kept of a session.
	Session(ctx context.Context, id, owner string) (steps.SessionState, error)
	// End ends a session.
	End(ctx context.Context, id, owner string) error
	// Take counts a request of the owner's; wait: it is one too many, until then. 0: it may come.
	Take(ctx context.Context, owner string, perSecond float64, burst int) (wait time.Duration, err error)
}

// Sessions gives a store whose operations, and those on what it keeps of each session, are counted and timed; store is its
// name among the metrics, a word of the code. Where the store fails that is logged as by Stored.
func (t *Telemetry) Sessions(store string, s Sessions) Sessions {
	return &sessions{stored{t, store}, s}
}

// stored is a store whose operations are told of.
type stored struct {
	t     *Telemetry
	store string
}

func (s *stored) note(ctx context.Context, operation string, started time.Time, err error) {
	s.t.Stored(ctx, s.store, operation, time.Since(started), err)
}

type sessions struct {
	stored
	of Sessions
}

// Begin implements Sessions.
func (s *sessions) Begin(ctx context.Context, owner string, most, all int) (id string, err error) {
	defer func(started time.Time) { s.note(ctx, "begin", started, err) }(time.Now())
	return s.of.Begin(ctx, owner, most, all)
}

// Session implements Sessions.
func (s *sessions) Session(ctx context.Context, id, owner string) (state steps.SessionState, err error) {
	defer func(started time.Time) { s.note(ctx, "find", started, err) }(time.Now())
	if state, err = s.of.Session(ctx, id, owner); err != nil || state == nil {
		return state, err
	}
	return &sessionState{s.stored, state}, nil
}

// End implements Sessions.
func (s *sessions) End(ctx context.Context, id, owner string) (err error) {
	defer func(started time.Time) { s.note(ctx, "end", started, err) }(time.Now())
	return s.of.End(ctx, id, owner)
}

// Take implements Sessions.
func (s *sessions) Take(ctx context.Context, owner string, perSecond float64, burst int) (wait time.Duration, err error) {
	defer func(started time.Time) { s.note(ctx, "take", started, err) }(time.Now())
	return s.of.Take(ctx, owner, perSecond, burst)
}

type sessionState struct {
	stored
	of steps.SessionState
}

// Read implements steps.SessionState.
func (s *sessionState) Read(ctx context.Context, names ...string) (numbers []int64, err error) {
	defer func(started time.Time) { s.note(ctx, "read", started, err) }(time.Now())
	return s.of.Read(ctx, names...)
}

// Add implements steps.SessionState.
func (s *sessionState) Add(ctx context.Context, name string, n int64) (sum int64, err error) {
	defer func(started time.Time) { s.note(ctx, "add", started, err) }(time.Now())
	return s.of.Add(ctx, name, n)
}

// Raise implements steps.SessionState.
func (s *sessionState) Raise(ctx context.Context, values map[string]int64) (err error) {
	defer func(started time.Time) { s.note(ctx, "raise", started, err) }(time.Now())
	return s.of.Raise(ctx, values)
}
