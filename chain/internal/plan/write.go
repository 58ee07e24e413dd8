package plan

import (
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// AnswersWrite reports whether the answer is the result of a function that is declared as writing and does not set Heavy to always or
// never.
func (p *Plan) AnswersWrite() bool {
	last := p.Steps[len(p.Steps)-1]
	if p.Returned != nil || last.Fn == nil || last.Selector != nil || last.Effect == steps.Read {
		return false
	}
	spec := last.Fn.Spec()
	return spec.EffectDeclared && spec.Heavy != "always" && spec.Heavy != "never"
}

// AnswersStep returns the number of the step whose whole result the chain answers, as its function or saved chain gave it: that of the last
// step, or the one that `return` names alone. -1: the answer is none.
func (p *Plan) AnswersStep() int {
	n := len(p.Steps) - 1
	if p.Returned != nil {
		uses := p.Returned.Uses()
		if len(uses) != 1 || uses[0].At != p.ReturnAt {
			return -1
		}
		u := uses[0]
		if !u.Whole || u.Root != refs.RootStep || len(u.Path) > 0 || u.Lenient {
			return -1
		}
		n = u.Step
	}
	if s := p.Steps[n]; s.Callee() == nil || s.Selector != nil || s.ForEach != nil || s.Collect != nil {
		return -1
	}
	return n
}

// Deletes reports whether a step's function deletes. Effect Destroy is not enough: an edit and a shell command have it too. The source
// must say so, or a word in the last segment of its name.
func Deletes(p *Step) bool {
	if p.Effect != steps.Destroy {
		return false
	}
	if p.Fn.Spec().Deletes {
		return true
	}
	words := wordsOf(p.Name()[strings.LastIndexByte(p.Name(), '.')+1:])
	return len(words) > 0 && slices.Contains(deletingFirst, words[0]) ||
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(deleting, word) })
}

// wordsOf splits a name into words: before capital letters, and at anything but letters and digits.
func wordsOf(name string) []string {
	runes, words := []rune(name), strings.Builder{}
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(words.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// The words in a function's name that mean that it deletes: anywhere, or only as the first word, since mouse_drop deletes nothing.
var (
	deleting      = []string{"delete", "remove", "destroy", "purge", "erase", "unlink"}
	deletingFirst = []string{"drop", "clear", "truncate"}
)
