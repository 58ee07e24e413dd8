package replica

import (
	"context"
	_ "embed"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of what is kept of one session.
const (
	// MaxFamily is how many names of families, those with a colon such as "ladder:x", a session keeps for certain: those that
	// were written last. Of older ones it keeps up to as many again, and one batch each; what it forgets counts 0 again.
	MaxFamily = 5_000

	// MaxPlain is how many other names it keeps. They never go; one more is limit_exceeded.
	MaxPlain = 100

	// MaxNumber is the largest number: one that would pass it stays there.
	MaxNumber = 1<<53 - 1
)

const (
	maxName = 200  // bytes of a name
	batch   = 1000 // names that one script is given; the server does nothing else meanwhile
)

// The first numbers of a script's answer.
const (
	answerGone = 0
	answerFull = 2
)

var (
	//go:embed numbers.lua
	numbersScript string
	//go:embed read.lua
	readScript string
	//go:embed write.lua
	writeScript string

	read  = redis.NewScript(sessionScript + numbersScript + readScript)
	write = redis.NewScript(sessionScript + numbersScript + writeScript)
)

// Read implements steps.SessionState, in one round trip for 1,000 names.
func (n *session) Read(ctx context.Context, names ...string) ([]int64, error) {
	if err := checkNames(names); err != nil {
		return nil, err
	}
	var numbers []int64
	err := n.store.do(ctx, func(ctx context.Context, server *redis.Client) error {
		numbers = make([]int64, 0, len(names))
		for some := range slices.Chunk(names, batch) {
			answer, err := n.ask(ctx, server, read, anys(some)...)
			if err != nil {
				return err
			}
			if len(answer) != len(some) {
				return errAnswer
			}
			numbers = append(numbers, answer...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return numbers, nil
}

// Add implements steps.SessionState. Where the connection breaks after the server was told, n may be added twice.
func (n *session) Add(ctx context.Context, name string, number int64) (sum int64, err error) {
	if err := checkNames([]string{name}); err != nil {
		return 0, err
	}
	if number < 0 {
		return 0, fault.New(fault.Internal, "A number of a session was to shrink by %d: they only grow.", -number)
	}
	var last int64
	err = n.store.do(ctx, func(ctx context.Context, server *redis.Client) (err error) {
		last, err = n.change(ctx, server, "add", []any{name, min(number, MaxNumber)})
		return err
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Raise implements steps.SessionState, in one round trip for 1,000 names. Of more, some may be raised when it fails.
func (n *session) Raise(ctx context.Context, values map[string]int64) error {
	names := slices.Collect(maps.Keys(values))
	if err := checkNames(names); err != nil {
		return err
	}
	return n.store.do(ctx, func(ctx context.Context, server *redis.Client) error {
		for some := range slices.Chunk(names, batch) {
			pairs := make([]any, 0, 2*len(some))
			for _, name := range some {
				pairs = append(pairs, name, min(max(values[name], 0), MaxNumber))
			}
			if _, err := n.change(ctx, server, "raise", pairs); err != nil {
				return err
			}
		}
		return nil
	})
}

// change changes numbers and gives the last one.
func (n *session) change(ctx context.Context, server *redis.Client, how string, pairs []any) (last int64, err error) {
	answer, err := n.ask(ctx, server, write, append([]any{how, MaxFamily, MaxPlain, int64(MaxNumber)}, pairs...)...)
	if err != nil {
		return 0, err
	}
	if len(answer) != 1 {
		return 0, errAnswer
	}
	return answer[0], nil
}

// ask runs a script about numbers and gives what follows the first number of its answer.
func (n *session) ask(ctx context.Context, server *redis.Client, script *redis.Script, own ...any) ([]int64, error) {
	answer, err := n.run(ctx, server, script, own...).Int64Slice()
	switch {
	case err != nil:
		return nil, err
	case len(answer) == 0:
		return nil, errAnswer
	case answer[0] == answerGone:
		return nil, gone()
	case answer[0] == answerFull:
		return nil, fault.New(fault.LimitExceeded, "A session has at most %d numbers whose names have no colon.", MaxPlain)
	}
	return answer[1:], nil
}

func checkNames(names []string) error {
	for _, name := range names {
		if len(name) == 0 || len(name) > maxName {
			return fault.New(fault.Internal, "The name of a session's number has %d bytes and may have 1 to %d.", len(name), maxName)
		}
	}
	return nil
}

func anys(names []string) []any {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list
}
