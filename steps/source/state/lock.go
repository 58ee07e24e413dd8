package state

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Bounds of a lock.
const (
	defaultLock = time.Minute
	maxLock     = 10 * time.Minute
	lookEvery   = 100 * time.Millisecond // how often a call that waits looks whether the lock is free
)

// lockSpace returns the space of the locks of a space. No name of a space has a blank.
func lockSpace(space string) string { return "lock " + space }

type lockArgs struct {
	Name  string `json:"name"`
	Space string `json:"space"`
	TTL   string `json:"ttl"`
	Wait  string `json:"wait"`
}

// lockValue is what is kept of a lock that is held.
type lockValue struct {
	Token  string `json:"token"`
	Fence  int64  `json:"fence"`
	Holder string `json:"holder"`
}

type lockResult struct {
	Token string `json:"token"`
	Fence int64  `json:"fence"`
	Until string `json:"until"`
}

// lock takes a lock, or renews it if this call of the run holds it since before a resume. While another holds it, lock waits.
func (s *Source) lock(ctx context.Context, a lockArgs) (json.RawMessage, error) {
	key, p, err := s.at(ctx, a.Space, a.Name)
	if err != nil {
		return nil, renamed(err)
	}
	ttl, err := lifetime("ttl", a.TTL, defaultLock, maxLock)
	if err != nil {
		return nil, err
	}
	wait, err := lifetime("wait", a.Wait, 0, maxLock)
	if err != nil {
		return nil, err
	}
	key.Space = lockSpace(key.Space)
	earlier := lockResult{}
	if raw := journal.PreviousResult(ctx); raw != nil {
		_ = json.Unmarshal(raw, &earlier) // this source has written it
	}
	token := strings.ToLower(rand.Text()) + ":" + a.Space + ":" + a.Name
	var held *journal.StateValue // what the call has waited for
	for end := time.Now().Add(wait); ; {
		for time.Now().Before(end) && ctx.Err() == nil {
			found := s.heldBy(ctx, key, earlier.Token)
			if found == nil {
				break
			}
			held = found
			pause(ctx, min(lookEvery, time.Until(end)))
		}
		if held != nil && isOutOfTime(ctx) {
			return nil, busyLock(held, lockOf(held), &p, wait)
		}
		raw, err := s.commit(ctx, &p, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
			if other := now.StateValue; other != nil && lockOf(other).Token != earlier.Token {
				if held = other; time.Now().Before(end) {
					return nil, nil, journal.ErrUndecided
				}
				return nil, nil, busyLock(other, lockOf(other), &p, wait)
			}
			return s.take(ctx, &p, now, lockValue{token, now.Next, p.caller}, ttl)
		})
		if !errors.Is(err, journal.ErrUndecided) {
			return raw, err
		}
		pause(ctx, min(lookEvery, time.Until(end))) // another was faster
	}
}

// take takes a lock as wanted, or renews the one that this call holds.
func (s *Source) take(ctx context.Context, p *place, now journal.StateNow, wanted lockValue, ttl time.Duration) (
	*journal.StateChange, []byte, error) {
	if now.StateValue != nil {
		wanted = lockOf(now.StateValue)
	}
	value, err := encode(wanted)
	if err != nil {
		return nil, nil, err
	}
	if f := s.checkRoom(p, now, "", value); f != nil {
		return nil, nil, f
	}
	undo, err := encode(unlockArgs{wanted.Token})
	if err != nil {
		return nil, nil, err
	}
	if err := steps.ReportUndo(ctx, &steps.Undo{Function: "state.unlock", Args: undo}); err != nil {
		return nil, nil, err
	}
	until := now.Now.Add(ttl).Truncate(time.Millisecond)
	result, err := encode(lockResult{wanted.Token, wanted.Fence, until.UTC().Format("2006-01-02T15:04:05.000Z07:00")})
	return &journal.StateChange{Value: value, Expires: until}, result, err
}

// busyLock is the fault of a lock that another holds. Only in a shared space it says who. To send the call again does no harm.
func busyLock(v *journal.StateValue, held lockValue, p *place, wait time.Duration) *fault.Error {
	who, remedy := "it is held", "give wait"
	if p.shared {
		who = held.Holder + " holds it"
	}
	if wait > 0 {
		remedy = "wait longer (wait, and timeoutMs of the step)"
	}
	f := fault.New(fault.Busy, "%s until %s, if it is not renewed: try again, or %s", who, timeText(v.Expires), remedy).Under("/name")
	f.Outcome = fault.NotSent
	return f
}

// isOutOfTime reports whether a time limit has ended a context, not its caller.
func isOutOfTime(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || fault.CodeOf(context.Cause(ctx)) == fault.Timeout
}

func lockOf(v *journal.StateValue) (held lockValue) {
	_ = json.Unmarshal(v.Value, &held) // this source has written it
	return held
}

// heldBy returns a lock that anybody has, beside who has the token. Of a journal that cannot be read, the call itself tells more.
func (s *Source) heldBy(ctx context.Context, key journal.StateKey, token string) *journal.StateValue {
	list, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: key.Owner, Space: key.Space, Names: []string{key.Name}, Values: true})
	if err != nil || len(list) == 0 || lockOf(&list[0]).Token == token {
		return nil
	}
	return &list[0]
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

type unlockArgs struct {
	Token string `json:"token"`
}

type unlockResult struct {
	Unlocked bool `json:"unlocked"`
}

// unlock ends a lock that still has the token. Nothing is left to undo then, so its undo is the same call, which finds nothing.
func (s *Source) unlock(ctx context.Context, a unlockArgs) (json.RawMessage, error) {
	parts := strings.SplitN(a.Token, ":", 3)
	if len(parts) != 3 {
		return nil, badArgument("token", "this is not what state.lock has answered as token")
	}
	key, p, err := s.at(ctx, parts[1], parts[2])
	if err != nil {
		return nil, renamed(err)
	}
	key.Space = lockSpace(key.Space)
	undo, err := encode(a)
	if err != nil {
		return nil, err
	}
	return s.commit(ctx, &p, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
		if err := steps.ReportUndo(ctx, &steps.Undo{Function: "state.unlock", Args: undo}); err != nil {
			return nil, nil, err
		}
		var change *journal.StateChange
		if now.StateValue != nil && lockOf(now.StateValue).Token == a.Token {
			change = &journal.StateChange{}
		}
		result, err := encode(unlockResult{change != nil})
		return change, result, err
	})
}

// renamed returns a fault about a key as one about the name of a lock.
func renamed(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.At == "/key" {
		f = f.Under("")
		f.At = "/name"
		return f
	}
	return err
}
