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
	for end := time.Now().Add(wait); ; {
		for time.Now().Before(end) && s.isHeld(ctx, key, earlier.Token) {
			if err := pause(ctx, min(lookEvery, time.Until(end))); err != nil {
				return nil, err
			}
		}
		raw, err := s.o.Journal().ChangeState(ctx, p.caller, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
			return s.take(ctx, now, &p, lockValue{token, now.Next, p.caller}, earlier.Token, ttl)
		})
		if fault.CodeOf(err) != fault.Busy || !time.Now().Before(end) {
			return raw, err
		}
	}
}

// take decides whether a lock is taken as wanted, or renewed if it still has the earlier token.
func (s *Source) take(ctx context.Context, now journal.StateNow, p *place, wanted lockValue, earlier string, ttl time.Duration) (
	*journal.StateChange, []byte, error) {
	if now.StateValue != nil {
		held := lockOf(now.StateValue)
		if held.Token != earlier {
			return nil, nil, busyLock(now.StateValue, held, p)
		}
		wanted = held
	}
	value, err := encode(wanted)
	if err != nil {
		return nil, nil, err
	}
	if f := s.checkRoom(now, "", value); f != nil {
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

// busyLock is the fault of a lock that another holds. Only in a shared space it says who.
func busyLock(v *journal.StateValue, held lockValue, p *place) *fault.Error {
	who := "it is held"
	if p.shared {
		who = held.Holder + " holds it"
	}
	return fault.New(fault.Busy, "%s until %s, if it is not renewed: try again, or give wait", who, timeText(v.Expires)).Under("/name")
}

func lockOf(v *journal.StateValue) (held lockValue) {
	_ = json.Unmarshal(v.Value, &held) // this source has written it
	return held
}

// isHeld reports whether anybody has a lock, beside who has the token. Of a journal that cannot be read, the call itself tells more.
func (s *Source) isHeld(ctx context.Context, key journal.StateKey, token string) bool {
	list, err := s.o.Journal().States(ctx, &journal.StateFilter{Owner: key.Owner, Space: key.Space, Names: []string{key.Name}, Values: true})
	return err == nil && len(list) > 0 && lockOf(&list[0]).Token != token
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
	return s.o.Journal().ChangeState(ctx, p.caller, key, func(now journal.StateNow) (*journal.StateChange, []byte, error) {
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
