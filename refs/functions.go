package refs

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// disabled lists the functions of expr-lang that cannot be bounded, with what to use instead.
var disabled = map[string]string{
	"reduce": "Use sum, join, groupBy, or several steps.",
	"repeat": "Write the text out, or make it in a step.",
}

// unguarded lists the functions that run as they are: their cost and their results are small, or bounded by existing
// values. A test requires every function of expr-lang to be in unguarded, guarded or disabled, or to take a predicate,
// whose iterations are counted.
var unguarded = []string{"hasPrefix", "hasSuffix",
	"duration", "date", "timezone", "first", "last", "get", "take", "bitand", "bitor", "bitxor", "bitnand",
	"bitshr", "bitushr", "bitnot"}

// function is a guarded function of expressions: it charges its cost before it runs.
type function func(e *evaluation, args []any) (any, error)

// The memory in bytes of an array element, of an object member, of an array or object itself, and of the room for eight members
// that every object has. The numbers include what is lost while values grow.
const elementBytes, memberBytes, containerBytes, objectBytes = 40, 96, 96, 320

// guarded maps the names of expr-lang's functions to what runs in their place.
var guarded = map[string]function{
	"now":         now,
	"len":         length,
	"indexOf":     sizedFunction(0, "indexOf"),
	"lastIndexOf": sizedFunction(0, "lastIndexOf"),
	"trim":        sizedFunction(0, "trim"),
	"trimPrefix":  sizedFunction(0, "trimPrefix"),
	"trimSuffix":  sizedFunction(0, "trimSuffix"),
	"upper":       sizedFunction(3, "upper"),
	"lower":       sizedFunction(3, "lower"),
	"toBase64":    sizedFunction(4, "toBase64"),
	"fromBase64":  sizedFunction(2, "fromBase64"),
	"keys":        membersFunction("keys", func(key, _ any) any { return key }),
	"values":      membersFunction("values", func(_, value any) any { return value }),
	"toPairs":     membersFunction("toPairs", func(key, value any) any { return []any{key, value} }),
	"fromPairs":   sizedFunction(memberBytes, "fromPairs"),
	"reverse":     sizedFunction(elementBytes, "reverse"),
	"concat":      sizedFunction(3*elementBytes, "concat"),
	"split":       splitFunction("split"),
	"splitAfter":  splitFunction("splitAfter"),
	"replace":     replace,
	"join":        join,
	"sort":        sortArray,
	"flatten":     walkingFunction(4*elementBytes, "flatten"),
	"min":         walkingFunction(elementBytes, "min"),
	"max":         walkingFunction(elementBytes, "max"),
	"mean":        averageFunction("mean"),
	"median":      averageFunction("median"),
	"abs":         absolute,
	"ceil":        floatFunction("ceil"),
	"floor":       floatFunction("floor"),
	"round":       floatFunction("round"),
	"int":         integer,
	"float":       floatFunction("float"),
	"uniq":        uniq,
	"bitshl":      shiftLeft,
	"type":        typeOf,
	"string":      text,
	"toJSON":      toJSON,
	"fromJSON":    fromJSON,
}

// guardFunctions are the functions that the guard inserts calls of, in expr-lang's form. Their names begin with a blank.
var guardFunctions = makeGuardFunctions()

func makeGuardFunctions() map[string]*builtin.Function {
	all := map[string]function{
		"tick":             func(e *evaluation, _ []any) (any, error) { return nil, e.countIteration() },
		"fetch":            func(e *evaluation, a []any) (any, error) { return e.fetch(a[0].(*lookup)) },
		"status":           func(e *evaluation, a []any) (any, error) { return e.status(a[0].(*lookup)), nil },
		"add":              add,
		"subtract":         subtract,
		"multiply":         arithmetic(multiplyIntegers, durations(multiplyIntegers, 1, runtime.Multiply)),
		"divide":           arithmetic(divideIntegers, func(a, b any) (any, error) { return runtime.Divide(a, b), nil }),
		"power":            arithmetic(powerOfIntegers, func(a, b any) (any, error) { return runtime.Exponent(a, b), nil }),
		"nanoseconds":      nanoseconds,
		"addDate":          addDate,
		"roundTime":        roundTime,
		"absoluteDuration": absoluteDuration,
		"negate":           negate,
		"sum":              sum,
		"equal":            func(e *evaluation, a []any) (any, error) { return e.equal(a[0], a[1]) },
		"in":               func(e *evaluation, a []any) (any, error) { return e.in(a[0], a[1]) },
		"range":            func(e *evaluation, a []any) (any, error) { return e.rangeValue(a[0], a[1]) },
		"matches":          matches,
		"literal":          func(e *evaluation, a []any) (any, error) { return e.chargeLiteral(a[0]) },
		"contains":         contains,
		// The next three return their argument and only charge: group for the result of groupBy, keep for what a method may keep, scan
		// for sorting or counting.
		"group": func(e *evaluation, a []any) (any, error) {
			return a[0], e.chargeValue(size(a[0]) * (containerBytes + memberBytes))
		},
		"keep": func(e *evaluation, a []any) (any, error) { return a[0], e.chargeValue(size(a[0])) },
		"scan": func(e *evaluation, a []any) (any, error) {
			n := size(a[0])
			return a[0], e.chargeWork(n * bits.Len(uint(n)))
		},
	}
	for _, name := range checkedMethods {
		all[afterOptional+name] = unlessNull(all[name])
	}
	for name, f := range guarded {
		all[name] = f
	}
	functions := orderings()
	for name, f := range all {
		name = " " + name
		functions[name] = &builtin.Function{Name: name, Func: func(args ...any) (any, error) {
			return f(args[0].(handle).evaluation, args[1:])
		}}
	}
	return functions
}

// now returns the time at which the scope's run began, so that a resumed run computes the same values.
func now(e *evaluation, _ []any) (any, error) {
	if e.scope != nil && !e.scope.Now.IsZero() {
		return e.scope.Now, nil
	}
	return time.Now(), nil
}

// size returns the length of a string, array or object, and 1 for all other values.
func size(value any) int {
	switch v := value.(type) {
	case string:
		return len(v)
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return v.Len()
	}
	return 1
}

// call runs expr-lang's function of this name.
func call(name string, args []any) (any, error) {
	f := builtin.Builtins[builtin.Index[name]]
	switch {
	case f.Fast != nil:
		return f.Fast(args[0]), nil
	case f.Safe != nil:
		value, _, err := f.Safe(args...)
		return value, err
	}
	return f.Func(args...)
}

// sizedFunction returns expr-lang's function, which is charged `each` bytes of memory for each byte, element or member
// of its arguments.
func sizedFunction(each int, name string) function {
	return func(e *evaluation, args []any) (any, error) {
		for _, a := range args {
			n := size(a)
			if err := e.chargeValue(n * each); err != nil {
				return nil, err
			}
			if err := e.chargeWork(n); err != nil {
				return nil, err
			}
		}
		return call(name, args)
	}
}

// walkingFunction returns expr-lang's function, which walks its arguments completely and is charged `each` bytes of
// memory for each value in them.
func walkingFunction(each int, name string) function {
	return func(e *evaluation, args []any) (any, error) {
		for _, a := range args {
			w := e.weigh(a)
			if err := e.chargeWork(w); err != nil {
				return nil, err
			}
			if err := e.chargeValue(w * each); err != nil {
				return nil, err
			}
		}
		return call(name, args)
	}
}

// membersFunction returns a function that lists an object's members in the order of the data, or by key if the expression made
// the object. expr-lang's order is random.
func membersFunction(name string, item func(key, value any) any) function {
	return func(e *evaluation, args []any) (any, error) {
		if err := e.chargeValue(size(args[0]) * (containerBytes + memberBytes)); err != nil {
			return nil, err
		}
		if groups, ok := args[0].(map[any][]any); ok {
			return groupMembers(groups, item), nil
		}
		object, ok := args[0].(map[string]any)
		if !ok {
			return call(name, args)
		}
		names := slices.Sorted(maps.Keys(object))
		if raw, ok := e.origins[identityOf(reflect.ValueOf(object))]; ok {
			names = keyOrder(raw, len(object))
		}
		list := make([]any, len(names))
		for i, key := range names {
			list[i] = item(key, object[key])
		}
		return list, nil
	}
}

// groupMembers returns the members of groupBy's result in the order in which they are written: by their keys as text.
func groupMembers(groups map[any][]any, item func(key, value any) any) []any {
	keyText := func(key any) string {
		name, _ := keyName(key) // a key that cannot be written comes first
		return name
	}
	keys := slices.SortedStableFunc(maps.Keys(groups), func(a, b any) int { return strings.Compare(keyText(a), keyText(b)) })
	list := make([]any, len(keys))
	for i, key := range keys {
		list[i] = item(key, groups[key])
	}
	return list
}

// keyOrder returns the n distinct keys of an object in the order of its text.
func keyOrder(raw string, n int) []string {
	names := make([]string, 0, n)
	seen := make(map[string]bool, n)
	gjson.Result{Type: gjson.JSON, Raw: raw}.ForEach(func(key, _ gjson.Result) bool {
		if name := rawjson.Unquote(key.Raw); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		return true
	})
	return names
}

// marshal returns a value's JSON and charges for it; uniform writes equal values as equal text.
func (e *evaluation) marshal(value any, uniform bool) ([]byte, error) {
	before := e.uniform
	e.uniform = uniform
	raw, err := e.appendValue(nil, value, 0)
	e.uniform = before
	if err == nil {
		err = e.chargeValue(3 * len(raw)) // covers the growth of raw, and the text that is made of it
	}
	return raw, err
}

// text implements string: a string stays as it is; another value becomes its JSON, as in a text with ${…}.
func text(e *evaluation, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		return s, nil
	}
	return toJSON(e, args)
}

// toJSON returns compact JSON; values from the data keep their bytes.
func toJSON(e *evaluation, args []any) (any, error) {
	raw, err := e.marshal(args[0], false)
	return string(raw), err
}

// fromJSON decodes a text; like results, its values keep their bytes.
func fromJSON(e *evaluation, args []any) (any, error) {
	s := strings.TrimPrefix(args[0].(string), "\ufeff") // a byte order mark is no part of the value
	if err := e.chargeValue(3 * len(s)); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if !utf8.ValidString(s) || json.Compact(&compact, []byte(s)) != nil {
		return nil, fault.New(fault.BadExpression, "fromJSON was given a text that is not JSON: %q.", clip(s))
	}
	return e.decode(compact.String())
}

// maxPattern bounds a regular expression that is computed at run time.
const maxPattern = 1000

// matches uses RE2: its cost is at most the product of the text's length and the pattern's size.
func matches(e *evaluation, args []any) (any, error) {
	if runtime.IsNil(args[0]) || runtime.IsNil(args[1]) {
		return false, nil
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, fault.New(fault.BadExpression, "matches takes a string; this is %s.", typeName(args[0]))
	}
	p, ok := args[1].(*Pattern)
	if !ok {
		var err error
		if p, err = e.pattern(args[1]); err != nil {
			return nil, err
		}
	}
	// Most searches cost far less than that product: an eighth of it is charged.
	if err := e.chargeWork(len(s) + len(s)/8*p.size); err != nil {
		return nil, err
	}
	search := Search{Pattern: p, Text: s, Heavy: e.acquireSlot}
	return search.matches(), search.Err()
}

// pattern compiles a regular expression that is computed at run time, or was too large to be stored with the expression.
func (e *evaluation) pattern(source any) (*Pattern, error) {
	text, isText := source.(string)
	if literal, ok := source.(literalPattern); ok {
		text = string(literal)
	} else if !isText || len(text) > maxPattern {
		return nil, fault.New(fault.BadExpression, "matches takes a regular expression of at most %d bytes.", maxPattern)
	}
	p := cachedPattern(text)
	if p != nil {
		return p, e.chargeWork(p.size * elementBytes)
	}
	if err := e.acquireSlot(); err != nil { // a large one takes some milliseconds to compile
		return nil, err
	}
	p, err := newPattern(text)
	if err != nil {
		return nil, fault.New(fault.BadExpression, "The regular expression is not valid: %s.", clip(patternProblem(err)))
	}
	return p, e.chargeWork(p.size * elementBytes)
}
