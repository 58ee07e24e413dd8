package lock

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// gap is a reason why a value of one schema, before, may not be accepted by another, after.
type gap struct {
	kind     gapKind
	path     []string
	text     string // of unfit: what has changed
	types    string // of unfit: the types that after does not accept; "": it is not about types
	inside   bool   // of unfit: it depends on the values inside
	required bool   // of onlyAfter
}

type gapKind int

const (
	onlyBefore gapKind = iota // a member is declared before alone
	onlyAfter                 // a member is declared after alone
	missing                   // a member may be missing before, and must be there after
	unfit                     // a value may not fit
	closed                    // undeclared members are accepted before alone
)

// Bounds of a comparison: schemas compared, and depth.
const maxCompared, maxDepth = 20_000, 60

// comparer collects the gaps between two schemas.
type comparer struct {
	before, after *document
	comparing     map[[2]string]bool // the pairs of references that are being compared: a recursive schema ends there
	left          int
	gaps          []gap
}

// gapsBetween compares two schemas.
func gapsBetween(before, after []byte) []gap {
	c := &comparer{before: parse(before), after: parse(after), comparing: map[[2]string]bool{}, left: maxCompared}
	c.compare(c.before.root, c.after.root, nil)
	return c.gaps
}

func (c *comparer) add(g gap, path []string, more ...string) {
	g.path = slices.Concat(path, more)
	c.gaps = append(c.gaps, g)
}

// compare adds the gaps between two schemas at a path.
func (c *comparer) compare(before, after any, path []string) {
	if c.left--; c.left < 0 || len(path) > maxDepth {
		c.add(gap{kind: unfit, text: "is too large to be compared", inside: true}, path)
		return
	}
	a, refA := c.before.resolve(before)
	b, refB := c.after.resolve(after)
	if refA != "" && refB != "" {
		pair := [2]string{refA, refB}
		if c.comparing[pair] {
			return
		}
		c.comparing[pair] = true
		defer delete(c.comparing, pair)
	}
	if a.alternatives() == nil && b.alternatives() == nil {
		c.comparePlain(a, b, path)
		return
	}
	list := b.alternatives()
	if list == nil {
		list = []any{map[string]any(b)}
	}
	for _, one := range a.parts() {
		c.compareAny(one, list, path)
	}
}

// compareAny adds the gaps between a schema and the nearest of several alternatives.
func (c *comparer) compareAny(before any, alternatives []any, path []string) {
	outer, best := c.gaps, []gap(nil)
	for i, one := range alternatives {
		c.gaps = nil
		c.compare(before, one, path)
		if len(c.gaps) == 0 {
			c.gaps = outer
			return
		}
		if i == 0 || distance(c.gaps, path) < distance(best, path) {
			best = c.gaps
		}
	}
	c.gaps = slices.Concat(outer, best)
}

// distance orders alternatives: one of another type is farther than any of the same.
func distance(gaps []gap, path []string) int {
	n := len(gaps)
	for _, g := range gaps {
		if g.kind == unfit && len(g.path) == len(path) {
			n += 100
		}
		if g.types != "" && len(g.path) == len(path) {
			n += 10_000
		}
	}
	return n
}

// comparePlain compares two schemas without alternatives.
func (c *comparer) comparePlain(a, b node, path []string) {
	before, knownBefore := a.types()
	after, knownAfter := b.types()
	var lost []string
	for _, name := range before {
		if !accepts(after, name) {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 && knownAfter {
		text := "is no longer accepted as " + strings.Join(lost, " or ")
		if !knownBefore {
			text = "must be " + strings.Join(after, " or ") + " now"
		}
		if len(after) == 0 {
			text = "is not accepted any more"
		}
		_, limited := b.values()
		c.add(gap{kind: unfit, text: text, types: strings.Join(lost, " or "), inside: limited}, path)
	}
	shared := func(name string) bool { return accepts(before, name) && accepts(after, name) }
	if !slices.ContainsFunc(before, func(name string) bool { return accepts(after, name) }) {
		return
	}
	c.compareValues(a, b, path)
	c.compareBounds(a, b, shared, path)
	c.compareOthers(a, b, path)
	if shared("object") {
		c.compareMembers(a, b, path)
	}
	if shared("array") {
		c.compareElements(a, b, path)
	}
}

func accepts(types []string, name string) bool {
	return slices.Contains(types, name) || name == "integer" && slices.Contains(types, "number")
}

// compareValues compares enum and const.
func (c *comparer) compareValues(a, b node, path []string) {
	after, limited := b.values()
	if !limited {
		return
	}
	before, wasLimited := a.values()
	if types, known := a.types(); !wasLimited && known && len(types) == 1 && types[0] == "boolean" {
		before, wasLimited = []any{true, false}, true
	}
	if !wasLimited {
		c.add(gap{kind: unfit, text: "takes only " + fewWords(after) + " now", inside: true}, path)
		return
	}
	have := map[string]bool{}
	for _, value := range after {
		have[textOf(value)] = true
	}
	lost := slices.DeleteFunc(slices.Clone(before), func(value any) bool { return have[textOf(value)] })
	if len(lost) > 0 {
		c.add(gap{kind: unfit, text: "does not take " + fewWords(lost) + " any more", inside: true}, path)
	}
}

// fewWords lists values for a message.
func fewWords(values []any) string {
	const most = 5
	var words []string
	for _, value := range values[:min(len(values), most)] {
		words = append(words, textOf(value))
	}
	if len(values) > most {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// compareBounds compares the keywords that bound the values of the types that both accept.
func (c *comparer) compareBounds(a, b node, shared func(string) bool, path []string) {
	add := func(text string) { c.add(gap{kind: unfit, text: text}, path) }
	if shared("number") || shared("integer") {
		c.compareNumbers(a, b, add)
	}
	for _, bound := range []struct{ of, least, most string }{
		{"string", "minLength", "maxLength"}, {"array", "minItems", "maxItems"}, {"object", "minProperties", "maxProperties"},
	} {
		if !shared(bound.of) {
			continue
		}
		sizes := a.sizes(bound.of)
		if limit, ok := number(b[bound.least]); ok && limit.Sign() > 0 { // no size is below 0
			was, had := number(a[bound.least])
			if !(had && was.Cmp(limit) >= 0) && !all(sizes, func(n *big.Rat) bool { return n.Cmp(limit) >= 0 }) {
				add("has " + bound.least + " " + textOf(b[bound.least]) + " now")
			}
		}
		if limit, ok := number(b[bound.most]); ok {
			was, had := number(a[bound.most])
			if !(had && was.Cmp(limit) <= 0) && !all(sizes, func(n *big.Rat) bool { return n.Cmp(limit) <= 0 }) {
				add("has " + bound.most + " " + textOf(b[bound.most]) + " now")
			}
		}
	}
	if shared("array") && b["uniqueItems"] == true && a["uniqueItems"] != true {
		c.add(gap{kind: unfit, text: "takes no element twice any more", inside: true}, path)
	}
	if pattern, ok := b["pattern"]; shared("string") && ok && textOf(pattern) != textOf(a["pattern"]) {
		add("has another pattern now")
	}
}

// compareNumbers compares the bounds of numbers.
func (c *comparer) compareNumbers(a, b node, add func(text string)) {
	values := a.numbers()
	for _, side := range []struct {
		keys [2]string
		sign int // of a number minus the bound that it keeps
	}{{[2]string{"minimum", "exclusiveMinimum"}, 1}, {[2]string{"maximum", "exclusiveMaximum"}, -1}} {
		limit, open := b.bound(side.keys, side.sign)
		if limit == nil {
			continue
		}
		was, wasOpen := a.bound(side.keys, side.sign)
		keeps := func(n *big.Rat) bool { return n.Cmp(limit)*side.sign > 0 || !open && n.Cmp(limit) == 0 }
		if (was == nil || !keeps(was) && !(wasOpen && was.Cmp(limit) == 0)) && !all(values, keeps) {
			word := side.keys[0]
			if _, ok := number(b[side.keys[1]]); ok && open {
				word = side.keys[1]
			}
			add("has " + word + " " + textOf(b[word]) + " now")
		}
	}
	step, ok := number(b["multipleOf"])
	if !ok || step.Sign() <= 0 {
		return
	}
	isMultiple := func(n *big.Rat) bool { return new(big.Rat).Quo(n, step).IsInt() }
	was, had := number(a["multipleOf"])
	if types, _ := a.types(); !had && len(types) == 1 && types[0] == "integer" {
		was, had = big.NewRat(1, 1), true
	}
	if !(had && isMultiple(was)) && !all(values, isMultiple) {
		add("must be a multiple of " + textOf(b["multipleOf"]) + " now")
	}
}

// all reports whether all of some values keep a bound; false: there are none to look at.
func all(values []*big.Rat, keeps func(*big.Rat) bool) bool {
	return len(values) > 0 && !slices.ContainsFunc(values, func(n *big.Rat) bool { return !keeps(n) })
}

// number returns a bound; false: it is none.
func number(value any) (*big.Rat, bool) {
	text, ok := value.(json.Number)
	if !ok || len(text) > 100 || strings.ContainsAny(string(text), "eE") && len(text) > 20 {
		return nil, false
	}
	return new(big.Rat).SetString(string(text))
}

// compared are the keywords that the other functions compare.
var compared = []string{"type", "nullable", "enum", "const", "minimum", "minLength", "minItems", "minProperties", "maximum", "maxLength",
	"maxItems", "maxProperties", "multipleOf", "uniqueItems", "pattern", "properties", "required"}

// compareOthers compares the remaining keywords as they are: what they accept is not worked out.
func (c *comparer) compareOthers(a, b node, path []string) {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		_, isObject := b[key].(map[string]any)
		_, isNumber := b[key].(json.Number)
		_, isBool := b[key].(bool)
		switch {
		case annotation(key), slices.Contains(compared, key), key == "additionalProperties",
			key == "items" && (isObject || isBool), // compareElements
			(isNumber || isBool) && strings.HasPrefix(key, "exclusive"):
			continue
		}
		text := textOf(b[key])
		if text != textOf(a[key]) || (key == "$ref" || strings.Contains(text, `"$ref"`)) && !c.sameTargets(text) {
			c.add(gap{kind: unfit, text: "has another " + key + " now", inside: true}, path)
		}
	}
}

// sameTargets reports whether what the references in a text name is surely the same on both sides.
func (c *comparer) sameTargets(text string) bool {
	toDefinitions := strings.Count(text, `"#/$defs/`) + strings.Count(text, `"#/definitions/`) + strings.Count(text, `"#/components/`)
	if toDefinitions >= max(strings.Count(text, `"$ref"`), 1) {
		return c.before.defs == c.after.defs
	}
	return c.before.text == c.after.text
}

// compareMembers compares the members of objects.
func (c *comparer) compareMembers(a, b node, path []string) {
	before, after := a.properties(), b.properties()
	othersBefore, othersAfter := a["additionalProperties"], b["additionalProperties"]
	required, wasRequired := b.required(), a.required()
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, isBefore := before[name]
		is, isAfter := after[name]
		switch {
		case isBefore && isAfter:
			c.compare(was, is, slices.Concat(path, []string{name}))
		case isBefore:
			c.add(gap{kind: onlyBefore}, path, name)
		default:
			c.add(gap{kind: onlyAfter, required: slices.Contains(required, name)}, path, name)
		}
	}
	for _, name := range required {
		if !slices.Contains(wasRequired, name) {
			c.add(gap{kind: missing}, path, name)
		}
	}
	if othersBefore == false || othersAfter == nil || othersAfter == true {
		return
	}
	if _, isSchema := othersAfter.(map[string]any); isSchema {
		outer := c.gaps
		c.gaps = nil
		c.compare(othersBefore, othersAfter, path)
		fits := len(c.gaps) == 0
		if c.gaps = outer; fits {
			return
		}
	}
	c.add(gap{kind: closed}, path)
}

// compareElements compares the elements of arrays.
func (c *comparer) compareElements(a, b node, path []string) {
	items, has := b["items"]
	if _, isList := items.([]any); !has || isList {
		return
	}
	was := a["items"]
	if _, isList := was.([]any); isList {
		was = nil
	}
	c.compare(was, items, slices.Concat(path, []string{"*"}))
}
