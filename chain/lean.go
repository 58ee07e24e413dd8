package chain

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/steps"
)

// defaultLeanAbove is the size, in tokens, above which a write's result is answered in its lean form.
const defaultLeanAbove = 100

const (
	maxLeanTokens = 90  // of a lean form, as of a probe without its preview: what the least budget has room for
	maxLeanValue  = 200 // bytes of an id, url or name; a longer one is left out, since what is cut is no value
)

// shorten puts the lean form of a write in the place of its result, and keeps the result for its caller, where:
//
//   - the result is that of the last step, which succeeded, and neither the request's `return` nor the step's `select` says
//     what is to be answered, nor did `orElse` stand in, nor is it an inline chain;
//   - the step's function was declared as writing: one that is only taken to write, as nothing is known of it, may be a
//     read, whose result is what it is called for. Nor does it say by Heavy what becomes of its results;
//   - it has more than Options.LeanAbove tokens, and the request does not say `verify`;
//   - there is something true to say in its place, as outcomeOf finds.
//
// A result that cannot be kept is answered whole, as nothing of it may be lost. A deletion that answers null has the lean form
// though it is short: null alone does not say that anything was deleted.
func (d *draft) shorten(ctx context.Context) {
	above, raw := d.o.LeanAbove, d.result
	p := d.run.plan
	last, ran := p.steps[len(p.steps)-1], &d.run.steps[len(p.steps)-1]
	if above < 0 || d.verify || !p.answersWrite() || ran.status != statusOK || ran.defaulted {
		return
	}
	if string(raw) == "null" && last.forEach == nil && deletes(last) {
		o := outcome{deleted: true, many: -1, status: d.status()}
		d.result, d.leaned = o.form(nil, 0, ""), true
		return
	}
	if d.results == nil || len(raw) <= above || d.o.Counter.Count(raw, above) <= above { // no text has more tokens than bytes
		return
	}
	o, tells := outcomeOf(raw, deletes(last), last.forEach != nil)
	namings := o.namings()
	if !tells || len(namings) == 0 {
		return
	}
	token, _, err := d.results.Keep(context.WithoutCancel(ctx), d.owner, slices.Clip(raw))
	if err != nil {
		return
	}
	if o.status == "" && last.forEach == nil {
		o.status = d.status()
	}
	for _, names := range namings {
		lean := o.form(names, len(raw), token)
		if d.o.Counter.Count(lean, maxLeanTokens) <= maxLeanTokens {
			d.result, d.leaned = lean, true
			return
		}
	}
}

// status is the HTTP status of the call; "" if there is none.
func (d *draft) status() string {
	if code := d.run.httpStatus.Load(); code != 0 {
		return itoa(int(code))
	}
	return ""
}

// answersWrite reports whether the answer is to be the result of a function that was declared as writing, in what form the
// engine finds best: a function may say by Heavy that its results are always probes, or are given as they are.
func (p *plan) answersWrite() bool {
	last := p.steps[len(p.steps)-1]
	if p.ret != nil || last.fn == nil || last.selects != nil || last.effect == steps.Read {
		return false
	}
	spec := last.fn.Spec()
	return spec.EffectDeclared && spec.Heavy != "always" && spec.Heavy != "never"
}

// The words of a function's name that say that it deletes: anywhere in it, and as its first only, since a mouse drops too.
var (
	deleting      = []string{"delete", "remove", "destroy", "purge", "erase", "unlink"}
	deletingFirst = []string{"drop", "clear", "truncate"}
)

// deletes reports whether a step's function deletes. That it destroys does not tell so: an edit does, and whatever runs a
// command. What says it is the source, or a word in the last part of its name.
func deletes(p *plannedStep) bool {
	if p.effect != steps.Destroy {
		return false
	}
	if p.fn.Spec().Deletes {
		return true
	}
	words := wordsOf(p.name()[strings.LastIndexByte(p.name(), '.')+1:])
	return len(words) > 0 && slices.Contains(deletingFirst, words[0]) ||
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(deleting, word) })
}

// wordsOf splits a name where a capital letter begins a word, and at all that is neither letter nor digit.
func wordsOf(name string) []string {
	runes, spaced := []rune(name), strings.Builder{}
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
