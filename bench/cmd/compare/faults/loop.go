package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

func init() {
	add(arm{key: "loop", name: "SDK client in a loop", open: openLoop})
}

// loop is the bare client of the SDK in a program that makes the calls one after another. If a call fails, it makes it again; if it is
// killed, it starts over, since it keeps nothing.
type loop struct {
	plain
	client
	bench *harness.Bench
	mu    sync.Mutex
	state *loopState
}

// loopState is what the program has in memory.
type loopState struct {
	ids        []string // of the steps that have ended
	step, item int      // the next call
}

func openLoop(_ context.Context, b *harness.Bench, _ *upstream) system { return &loop{bench: b} }

func (l *loop) hasDeadline() bool { return true }

func (l *loop) killClient() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = nil
	l.client.killClient()
}

func (l *loop) begin(ctx context.Context, t *trial) answer {
	state := &loopState{}
	l.mu.Lock()
	l.state = state
	l.mu.Unlock()
	return l.work(ctx, t, state)
}

func (l *loop) goOn(ctx context.Context, t *trial, _ answer) answer {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if state == nil {
		return l.begin(ctx, t)
	}
	return l.work(ctx, t, state)
}

// work makes the calls that are left.
func (l *loop) work(ctx context.Context, t *trial, s *loopState) answer {
	ctx, vanish := l.live(ctx)
	defer vanish()
	session, err := l.bench.Dial(ctx, t.upstream.url(), "")
	if err != nil {
		return answer{text: err.Error()}
	}
	defer session.End()
	for ; s.step < len(t.task.steps); s.step++ {
		one := &t.task.steps[s.step]
		id := ""
		for ; s.item < max(1, one.items); s.item++ {
			args := map[string]string{}
			for _, a := range one.args {
				args[a.name] = a.literal
				if a.from > 0 {
					args[a.name] = s.ids[a.from-1]
				}
			}
			if one.writes() {
				args["ref"] = t.ref(s.step, s.item)
			}
			if id, err = l.call(ctx, session, one.tool, args); err != nil {
				return answer{text: err.Error()}
			}
		}
		s.ids, s.item = append(s.ids, id), 0
	}
	return answer{done: true}
}

func (l *loop) call(ctx context.Context, session *harness.Session, tool string, args map[string]string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(result.StructuredContent)
	if err == nil && result.IsError {
		err = fmt.Errorf("%s failed", tool)
	}
	return gjson.GetBytes(text, "id").Str, err
}
