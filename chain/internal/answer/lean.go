package answer

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/steps"
)

// DefaultLeanAbove is the size in tokens above which a write's result is answered in its lean form.
const DefaultLeanAbove = 100

const (
	maxLeanTokens = 90  // tokens of a lean form, like those of a probe without its preview: the lowest budget has room for it
	maxLeanValue  = 200 // bytes of an id, url or name; longer ones are left out, since a cut value is useless
)

// useLeanForm replaces the result of a write by its lean form, and stores the result for the caller, if all of this holds:
//
//   - the result is that of the last step, which succeeded; `return`, `select`, a value from `orElse` and inline chains rule it out;
//   - the step's function is declared as writing. A function that is only assumed to write may be a read, which is called
//     for its result. A function that sets Heavy is left alone too;
//   - the result has more than Options.LeanAbove tokens, and the request does not set `verify`;
//   - summarizeWrite can describe the write truthfully instead.
//
// If the result cannot be stored it is answered completely. A delete that answers null gets the lean form although null is short: null
// alone does not say that something was deleted.
func (b *builder) useLeanForm(ctx context.Context) {
	above, raw := b.LeanAbove, b.Result
	last, ran := b.Run.Last, &b.Run.Steps[len(b.Run.Steps)-1]
	if above < 0 || b.Verify || !last.Writes || ran.Status != facts.StatusOK || ran.Defaulted > 0 {
		return
	}
	if string(raw) == "null" && !last.ForEach && last.Deletes {
		o := writeSummary{deleted: true, count: -1, status: b.status(), object: deletedObject(ran.Fn, ran.Fn.Shown(ran.Args))}
		b.Result, b.isLean = o.leanForm([]string{"id"}, 0, ""), true
		return
	}
	if b.Results == nil || len(raw) <= above || b.Counter.Count(raw, above) <= above { // no text has more tokens than bytes
		return
	}
	o, known := summarizeWrite(raw, last.Deletes, last.ForEach)
	choices := o.identityChoices()
	if !known || len(choices) == 0 {
		return
	}
	token, _, err := b.Results.Keep(context.WithoutCancel(ctx), b.Caller, slices.Clip(raw))
	if err != nil {
		return
	}
	if _, told := scalar(o.object, "id"); o.deleted && o.count < 0 && !told {
		o.object = deletedObject(ran.Fn, ran.Fn.Shown(ran.Args))
	}
	if o.status == "" && !last.ForEach {
		o.status = b.status()
	}
	for _, names := range choices {
		lean := o.leanForm(names, len(raw), token)
		if b.Counter.Count(lean, maxLeanTokens) <= maxLeanTokens {
			b.Result, b.isLean = lean, true
			return
		}
	}
}

// deletedObject returns {"id": …} with what the arguments of a deletion say of its object: the argument id, else the last required one
// whose name ends in id, else the only required one. It returns the zero value if there is none, or if it is no text or number that can be
// shown.
func deletedObject(fn *steps.Entry, args []byte) (object gjson.Result) {
	given := gjson.ParseBytes(args)
	best, required := "", 0
	given.ForEach(func(key, _ gjson.Result) bool {
		name := steps.FoldName(key.Str)
		switch isRequired := fn.Requires(fn.Argument(key.Str)); {
		case name == "id":
			best, required = key.Str, 0
			return false
		case isRequired && strings.HasSuffix(name, "id"):
			best, required = key.Str, 0
		case isRequired && (best == "" || required > 0):
			best = key.Str
			required++
		}
		return true
	})
	raw, ok := scalar(given, gjson.Escape(best))
	if !ok || required > 1 {
		return gjson.Result{}
	}
	return gjson.Parse(`{"id":` + raw + `}`)
}

// status returns the HTTP status of the call, or "".
func (b *builder) status() string {
	if code := b.Run.HTTPStatus; code != 0 {
		return strconv.Itoa(code)
	}
	return ""
}
