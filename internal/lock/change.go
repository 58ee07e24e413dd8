package lock

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// Rule is a kind of change. Rules has them all.
type Rule string

// The rules.
const (
	FunctionRemoved  Rule = "function_removed"
	EffectRaised     Rule = "effect_raised"
	EffectLowered    Rule = "effect_lowered"
	Description      Rule = "description"
	ArgumentAdded    Rule = "argument_added"
	ArgumentRequired Rule = "argument_required"
	ArgumentRemoved  Rule = "argument_removed"
	ArgumentNarrowed Rule = "argument_narrowed"
	ArgumentsClosed  Rule = "arguments_closed"
	InputOther       Rule = "input_other"
	ResultRemoved    Rule = "result_removed"
	ResultOptional   Rule = "result_optional"
	ResultChanged    Rule = "result_changed"
	ResultUndeclared Rule = "result_undeclared"
	OutputOther      Rule = "output_other"
)

// Rules is the table of rules: what each means, and which chains it breaks.
var Rules = []struct {
	Rule          Rule
	Means, Breaks string
}{
	{FunctionRemoved, "the function is gone, or has another name", "every one that calls it"},
	{EffectRaised, "it read and writes now, or wrote and destroys now",
		"every one that calls it: other callers may use it, and its calls may " +
			"need approval"},
	{EffectLowered, "it wrote and reads now, or destroyed and writes now",
		"every one that calls it: its calls may need no approval any more, and a read runs beside others"},
	{Description, "its description differs", "none: read it, since a model does"},
	{ArgumentAdded, "an optional argument is new", "none, unless it gives an argument of that name already, by a reference"},
	{ArgumentRequired, "an argument is required now", "one that does not give it"},
	{ArgumentRemoved, "an argument is gone, or has another name", "one that gives it"},
	{ArgumentNarrowed, "an argument takes fewer values: another type, fewer words, narrower bounds",
		"one that gives it by a reference, or a " +
			"value that does not fit any more"},
	{ArgumentsClosed, "an object takes no undeclared members any more",
		"one that gives the whole object by a reference, or such a member"},
	{InputOther, "the input schema differs in words, or takes more", "none"},
	{ResultRemoved, "a member of the result is gone, or has another name", "one that reads it"},
	{ResultOptional, "a member of the result may be missing now", "one that reads it without `?` or `??`"},
	{ResultChanged, "a member of the result may have another type", "one that reads it"},
	{ResultUndeclared, "the result is not declared any more", "one that reads a member of it"},
	{OutputOther, "the output schema differs in words, or promises more", "none"},
}

// Change is one change of a function.
type Change struct {
	Function string
	Rule     Rule
	Path     []string // of the argument or of the member of the result; "*" is each element. nil: the function as a whole
	Text     string   // what has changed, for a person

	inside bool // what the values in it are counts too, not only what it is
}

// At returns the place of the change as a JSON Pointer below input or output; "": the function as a whole.
func (c *Change) At() string {
	side := ""
	switch {
	case strings.HasPrefix(string(c.Rule), "argument"):
		side = "/input"
	case strings.HasPrefix(string(c.Rule), "result"):
		side = "/output"
	}
	for _, key := range c.Path {
		side += "/" + pointerEscape.Replace(key)
	}
	return side
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// Changes compares a function with the one that the lock remembers, by the table of rules. now is nil if there is none.
func Changes(locked, now *Function) (list []Change) {
	if now == nil {
		return []Change{{Function: locked.Name, Rule: FunctionRemoved, Text: "there is no such function any more"}}
	}
	if locked.Digest == now.Digest {
		return nil
	}
	add := func(c Change) {
		c.Function = locked.Name
		list = append(list, c)
	}
	if was, is := severity(locked.Effect), severity(now.Effect); was != is {
		rule := EffectRaised
		if is < was {
			rule = EffectLowered
		}
		add(Change{Rule: rule, Text: "its effect was " + locked.Effect.String() + " and is " + now.Effect.String()})
	}
	if locked.Description != now.Description {
		add(Change{Rule: Description, Text: "its description has changed: read it"})
	}
	for _, c := range inputChanges(locked.Input, now.Input) {
		add(c)
	}
	for _, c := range outputChanges(locked.Output, now.Output) {
		add(c)
	}
	return list
}

func severity(e steps.Effect) int {
	return slices.Index([]steps.Effect{steps.Read, steps.Write, steps.Destroy}, e)
}

// inputChanges says what of the arguments that were accepted is not accepted now.
func inputChanges(was, is []byte) (list []Change) {
	if bytes.Equal(was, is) {
		return nil
	}
	for _, g := range gapsBetween(was, is) {
		name := strings.Join(g.path, ".")
		switch g.kind {
		case onlyBefore:
			list = append(list, Change{Rule: ArgumentRemoved, Path: g.path, Text: "there is no argument " + name + " any more"})
		case onlyAfter:
			if !g.required {
				list = append(list, Change{Rule: ArgumentAdded, Path: g.path, Text: "there is a new argument " + name})
			}
		case missing:
			list = append(list, Change{Rule: ArgumentRequired, Path: g.path, Text: "the argument " + name + " is required now"})
		case unfit:
			list = append(list, Change{Rule: ArgumentNarrowed, Path: g.path, inside: g.inside,
				Text: subject("the argument", "the arguments", g.path) + " " + g.text})
		case closed:
			list = append(list, Change{Rule: ArgumentsClosed, Path: g.path,
				Text: cmp.Or(name, "the object of arguments") + " takes no undeclared members any more"})
		}
	}
	if len(list) == 0 {
		list = append(list, Change{Rule: InputOther, Text: "its input schema differs in words, or takes more"})
	}
	return list
}

// outputChanges says what of the result that was promised is not promised now.
func outputChanges(was, is []byte) (list []Change) {
	switch {
	case bytes.Equal(was, is):
		return nil
	case len(is) == 0:
		return []Change{{Rule: ResultUndeclared, Path: []string{}, Text: "its result is not declared any more"}}
	}
	removed := map[string]bool{}
	for _, g := range gapsBetween(is, was) { // what is given now must be what was promised
		name := strings.Join(g.path, ".")
		switch {
		case g.kind == onlyAfter:
			removed[name] = true
			list = append(list, Change{Rule: ResultRemoved, Path: g.path, Text: "there is no member " + name + " of the result any more"})
		case g.kind == missing && !removed[name]:
			list = append(list, Change{Rule: ResultOptional, Path: g.path, Text: "the member " + name + " of the result may be missing now"})
		case g.kind == unfit && g.types != "":
			list = append(list, Change{Rule: ResultChanged, Path: g.path,
				Text: subject("the member", "the result", g.path) + " may be " + g.types + " now"})
		}
	}
	if len(list) == 0 {
		list = append(list, Change{Rule: OutputOther, Text: "its output schema differs in words, or promises more"})
	}
	return list
}

// subject names the place of a change.
func subject(member, whole string, path []string) string {
	if len(path) == 0 {
		return whole
	}
	return member + " " + strings.Join(path, ".")
}
