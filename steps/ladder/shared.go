package ladder

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/onecall-mcp/onecall/steps"
)

// shared is the memory of a session that replicas share: a number for each subject, its rung counted from 1. Which of too many
// are forgotten is decided by who keeps the numbers; of one call no more subjects are looked for or noted than the ladder
// remembers, and of one result no more than maxFound.
type shared struct{ state steps.SessionState }

// maxFound is how many subjects of one result are noted where replicas share a session: one caller's searches must not keep
// the store of all busy.
const maxFound = 500

func (shared) most(l *Ladder) int { return min(l.max, maxFound) }

func (m shared) stands(ctx context.Context, l *Ladder, keys []key) ([]int, error) {
	rungs := make([]int, len(keys))
	places := map[key][]int{} // a subject may stand twice in a call
	for i, k := range keys {
		rungs[i] = foot
		if _, ok := places[k]; ok || len(places) < l.max {
			places[k] = append(places[k], i)
		}
	}
	asked := slices.Collect(maps.Keys(places))
	names := make([]string, len(asked))
	for i, k := range asked {
		names[i] = l.name(k)
	}
	reached, err := m.state.Read(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i, k := range asked {
		for _, place := range places[k] {
			rungs[place] = int(reached[i]) - 1
		}
	}
	return rungs, nil
}

func (m shared) reach(ctx context.Context, l *Ladder, rung int, keys []key) error {
	values := map[string]int64{}
	for _, k := range keys {
		if len(values) == l.max {
			break
		}
		values[l.name(k)] = int64(rung) + 1
	}
	if len(values) == 0 {
		return nil
	}
	return m.state.Raise(ctx, values)
}

// name is that of a subject's number. Another ladder's are others.
func (l *Ladder) name(k key) string {
	return "ladder:" + l.id + ":" + base64.RawURLEncoding.EncodeToString(k[:])
}

// identity stands for a ladder: its rungs in their order, and its subject.
func identity(folded []string) string {
	hash := sha256.New()
	for _, name := range folded {
		hash.Write([]byte(name))
		hash.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:9])
}
