package chain_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// itemShop is a service that fails in all possible ways. It records what it did and what its callers know of that.
type itemShop struct {
	mu       sync.Mutex
	random   *rand.Rand
	faults   float64           // how often a call fails
	items    map[string]string // the notes of its items, by key
	paid     map[string]string // the idempotency key with which an item was put, by key
	unknown  map[string]bool   // the caller of put does not know whether it was done
	unsure   map[string]bool   // the caller of remove does not know whether it was done
	approved map[string]int    // how often the guarded call with these arguments (withDigests) may be made
	pictures []string          // the keys of the pictures that were returned
	offenses []string          // violations of the rules
}

func newShop(random *rand.Rand, faults float64) *itemShop {
	return &itemShop{random: random, faults: faults, items: map[string]string{}, paid: map[string]string{}, unknown: map[string]bool{},
		unsure: map[string]bool{}, approved: map[string]int{}}
}

// answer carries out a call or not, and returns a randomly drawn answer. unknown: the caller cannot know whether it was carried out.
func (s *itemShop) answer(do func() []byte) (result []byte, unknown bool, err error) {
	luck := 1.0
	if s.random.Float64() < s.faults {
		luck = s.random.Float64()
	}
	switch {
	case luck < 0.2:
		return nil, false, &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "the shop says no"}
	case luck < 0.3:
		return nil, false, &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Message: "the shop is closed"}
	case luck < 0.5:
		return nil, true, fault.New(fault.Timeout, "the line is dead before it was heard")
	}
	result = do()
	switch {
	case luck < 0.7:
		return nil, true, &fault.Error{Code: fault.FunctionFailed, Status: 500, Message: "the shop broke down with it in hand"}
	case luck < 0.9:
		return nil, true, fault.New(fault.Timeout, "the line is dead after it was heard")
	}
	return result, false, nil
}

func (s *itemShop) offense(format string, args ...any) {
	s.offenses = append(s.offenses, fmt.Sprintf(format, args...))
}

// put stores an item. An item that exists may only be put again by a repeatable call, or with its idempotency key.
func (s *itemShop) put(ctx context.Context, args []byte, repeatable bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := gjson.GetBytes(args, "key").Str
	_, paid := steps.IdempotencyKey(ctx)
	result, unknown, err := s.answer(func() []byte {
		if _, exists := s.items[key]; exists && !repeatable && (paid == "" || s.paid[key] != paid) {
			s.offense("%s was put twice", key)
		}
		s.items[key], s.paid[key] = gjson.GetBytes(args, "note").Raw, paid
		delete(s.unsure, key)
		return s.receipt(key)
	})
	s.unknown[key] = unknown || s.unknown[key] && err != nil // a later refusal says nothing about an earlier call
	return result, err
}

// guarded stores an item if the call was approved.
func (s *itemShop) guarded(ctx context.Context, args []byte) ([]byte, error) {
	s.mu.Lock()
	shown := s.withDigests(args)
	if s.approved[shown]--; s.approved[shown] < 0 {
		s.offense("%s was made without approval", args)
	}
	s.mu.Unlock()
	return s.put(ctx, args, false)
}

// advance stores the next item of a row.
func (s *itemShop) advance(ctx context.Context, args []byte) ([]byte, error) {
	next := gjson.GetBytes(args, "from").Int() + 1
	return s.put(ctx, fmt.Appendf(nil, `{"key":"%s#%d","note":%s}`, gjson.GetBytes(args, "key").Str, next, gjson.GetBytes(args, "note").Raw),
		false)
}

// print stores an item, and returns its picture.
func (s *itemShop) print(ctx context.Context, args []byte) ([]byte, error) {
	if _, err := s.put(ctx, args, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.picture(ctx, gjson.GetBytes(args, "key").Str)
}

// remove removes an item that exists.
func (s *itemShop) remove(_ context.Context, args []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := gjson.GetBytes(args, "key").Str
	if s.unsure[key] {
		s.offense("%s was removed again, although an earlier remove may have succeeded", key)
	}
	result, unknown, err := s.answer(func() []byte {
		if _, exists := s.items[key]; !exists {
			s.offense("%s was removed twice", key)
		}
		delete(s.items, key)
		return []byte(`{"gone":true}`)
	})
	s.unsure[key] = unknown
	return result, err
}

// receipt returns the result of a put. The key of an item in a row ends with its number.
func (s *itemShop) receipt(key string) []byte {
	_, number, _ := strings.Cut(key, "#")
	return fmt.Appendf(nil, `{"of":%q,"at":%s,"seen":[1,2]}`, key, strings.Repeat("0", 1-min(1, len(number)))+number)
}

// isClosed reports whether a call fails before it does anything.
func (s *itemShop) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < s.faults/2
}

// count reads how many items there are; page reads one of three pages, which never change, and look the picture of an item.
func (s *itemShop) count(context.Context, []byte) ([]byte, error) {
	if s.isClosed() {
		return nil, fault.New(fault.Unavailable, "the shop does not answer")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Appendf(nil, `{"n":%d}`, len(s.items)), nil
}

func (s *itemShop) page(ctx context.Context, args []byte) ([]byte, error) {
	if _, err := s.count(ctx, nil); err != nil {
		return nil, err
	}
	n := gjson.GetBytes(args, "page").Int()
	return fmt.Appendf(nil, `{"rows":["row %d"],"next":%d}`, n, n+1), nil
}

func (s *itemShop) look(ctx context.Context, args []byte) ([]byte, error) {
	if _, err := s.count(ctx, nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.picture(ctx, gjson.GetBytes(args, "of").Str)
}

// stateAt returns the state of the items that the calls at a place put: how many exist, and for how many it is not known whether they
// were put or removed.
func (s *itemShop) stateAt(base string) (present, unknown int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	belongs := func(key string) bool { return key == base || strings.HasPrefix(key, base+"#") }
	for key := range s.items {
		if belongs(key) {
			present++
		}
	}
	for _, list := range []map[string]bool{s.unknown, s.unsure} {
		for key, isUnknown := range list {
			if belongs(key) && isUnknown {
				unknown++
			}
		}
	}
	return present, unknown
}

// savedModel are the saved chains that drawn chains call. The first two count before they put: their elements run one by one.
var savedModel = map[string]string{
	"deliver": `{"params":{"key":{},"note":{}},"steps":[{"fn":"shop.count"},{"fn":"shop.put","args":{"key":"$input.key","note":["$input.note","$0.n"]},"undo":{"fn":"shop.remove","args":{"key":"$result.of"}}}]}`,
	"hand_on": `{"params":{"key":{},"note":{}},"steps":[{"fn":"chain.deliver","args":{"key":"$input.key","note":"$input.note"}},{"fn":"shop.count"}],"return":"$0"}`,
	"place":   `{"params":{"key":{},"note":{}},"steps":[{"fn":"shop.page","args":{"page":1}},{"fn":"shop.put","args":{"key":"$input.key","note":["$input.note","$0.rows"]}}]}`,
	"careful": `{"onError":"undo","params":{"key":{},"note":{}},"steps":[{"fn":"shop.put","args":{"key":"${$input.key}.a","note":"$input.note"},"undo":{"fn":"shop.remove","args":{"key":"$result.of"}}},{"fn":"shop.put","args":{"key":"${$input.key}.b","note":"$0"}}]}`,
	"keep":    `{"onError":"undo","params":{"key":{},"note":{}},"steps":[{"fn":"state.set","args":{"key":"$input.key","value":"$input.note"}},{"fn":"fs.write","args":{"path":"$input.key","text":"kept"}},{"fn":"shop.put","args":{"key":"$input.key","note":"$1.path"}}]}`,
}

// savedFunctions returns the functions of savedModel. They are the same for all shops.
var savedFunctions = sync.OnceValue(func() (list []steps.Function) {
	for name, text := range savedModel {
		function, faults := chain.Saved(name, []byte(text), &chain.Options{})
		if len(faults) > 0 {
			panic(faults)
		}
		list = append(list, *function)
	}
	return list
})

func (s *itemShop) functions() []steps.Function {
	put := func(repeatable bool) steps.Call {
		return func(ctx context.Context, args []byte) ([]byte, error) { return s.put(ctx, args, repeatable) }
	}
	return []steps.Function{
		{Spec: steps.Spec{Name: "shop.put", EffectDeclared: true}, Call: put(false)},
		{Spec: steps.Spec{Name: "shop.set", EffectDeclared: true, Idempotent: true}, Call: put(true)},
		{Spec: steps.Spec{Name: "shop.pay", EffectDeclared: true, Idempotency: &steps.Idempotency{Header: "Idempotency-Key"}}, Call: put(false)},
		{Spec: steps.Spec{Name: "shop.guarded", EffectDeclared: true, Approve: steps.ApproveWrite}, Call: s.guarded},
		{Spec: steps.Spec{Name: "shop.print", EffectDeclared: true}, Call: s.print},
		{Spec: steps.Spec{Name: "shop.advance", EffectDeclared: true}, Call: s.advance},
		{Spec: steps.Spec{Name: "shop.remove", EffectDeclared: true, Effect: steps.Destroy}, Call: s.remove},
		{Spec: steps.Spec{Name: "shop.count", Effect: steps.Read}, Call: s.count},
		{Spec: steps.Spec{Name: "shop.page", Effect: steps.Read}, Call: s.page},
		{Spec: steps.Spec{Name: "shop.look", Effect: steps.Read}, Call: s.look},
	}
}
