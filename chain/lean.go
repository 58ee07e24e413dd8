package chain

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// DefaultLeanAbove is the size, in tokens, above which a write's result is answered in its lean form.
const DefaultLeanAbove = 100

const (
	maxLeanTokens = 90  // of a lean form, as of a probe without its preview: what the least budget has room for
	maxLeanValue  = 200 // bytes of an id, url or name; a longer one is left out, since what is cut is no value
)

// shorten puts the lean form of a write in the place of its result, and keeps the result for its caller, where:
//
//   - the result is that of the last step, which succeeded, and neither the request's `return` nor the step's `select` says
//     what is to be answered, nor did `orElse` stand in, nor is it an inline chain;
//   - the step's function was declared as writing: one that is only taken to write, as nothing is known of it, may be a
//     read, whose result is what it is called for;
//   - it has more than Options.LeanAbove tokens, and the request does not say `verify`.
//
// A forEach over such a function is many: its elements have all succeeded, and their results can be fetched. A result that
// cannot be kept is answered whole, as nothing of it may be lost.
func (d *draft) shorten(ctx context.Context) {
	above, raw := d.o.LeanAbove, d.result
	if above < 0 || d.verify || d.o.Results == nil || !d.wrote() {
		return
	}
	if len(raw) <= above || d.o.Counter.Count(raw, above) <= above { // no text has more tokens than bytes
		return
	}
	last := d.run.plan.steps[len(d.run.plan.steps)-1]
	token, _, err := d.o.Results.Keep(context.WithoutCancel(ctx), d.owner, slices.Clip(raw))
	if err != nil {
		return
	}
	o := outcomeOf(raw, last.forEach != nil)
	if code := d.run.httpStatus.Load(); o.status == "" && code != 0 && last.forEach == nil {
		o.status = itoa(int(code))
	}
	d.leaned = true
	for _, names := range [][]string{{"id", "url", "name"}, {"id", "url"}, {"id"}, nil} {
		d.result = o.form(last.effect == steps.Destroy, names, len(raw), token)
		if d.o.Counter.Count(d.result, maxLeanTokens) <= maxLeanTokens {
			return
		}
	}
}

// wrote tells whether the result is what a function gave that was declared as writing.
func (d *draft) wrote() bool {
	p := d.run.plan
	ran := &d.run.steps[len(p.steps)-1]
	return p.answersWrite() && ran.status == statusOK && !ran.defaulted
}

// answersWrite tells whether the answer is to be the result of a function that was declared as writing.
func (p *plan) answersWrite() bool {
	last := p.steps[len(p.steps)-1]
	return p.ret == nil && last.fn != nil && last.selects == nil && last.fn.Spec().EffectDeclared && last.effect != steps.Read
}

// outcome is what a write answered.
type outcome struct {
	object gjson.Result // of one; it may be no object, and then tells nothing
	many   int          // how many it was; -1: one
	status string       // the HTTP status, "" where it is not told
}

// outcomeOf reads a write's result: each of a forEach's, a list, a list in an object that has no identity of its own, or
// one thing. An HTTP function's answer {status, headers, body} tells its status, and what its body says.
func outcomeOf(raw []byte, each bool) outcome {
	o := outcome{object: gjson.ParseBytes(raw), many: -1}
	if status, body, ok := httpAnswer(o.object); ok && !each {
		o.status, o.object = status, body
	}
	switch list := o.object; {
	case list.IsArray():
		o.many = count(list)
	case list.IsObject() && !identified(list):
		if only, found := onlyList(list); found {
			o.many = count(only)
		}
	}
	return o
}

// httpAnswer takes apart an object of exactly a status, headers and a body.
func httpAnswer(v gjson.Result) (status string, body gjson.Result, ok bool) {
	if !v.IsObject() {
		return "", v, false
	}
	code, headers, members := gjson.Result{}, false, 0
	v.ForEach(func(key, value gjson.Result) bool {
		members++
		switch key.Str {
		case "status":
			code = value
		case "headers":
			headers = value.IsObject()
		case "body":
			body = value
		}
		return members <= 3
	})
	ok = members == 3 && headers && body.Exists() && code.Type == gjson.Number && code.Num >= 100 && code.Num < 600
	return code.Raw, body, ok
}

// identified tells whether an object has an id, a url or a name: it is one thing, whatever lists it holds.
func identified(object gjson.Result) bool {
	return slices.ContainsFunc([]string{"id", "url", "name"}, func(name string) bool {
		_, ok := scalar(object, name)
		return ok
	})
}

// scalar is the text or number that an object has by that name, short enough to be told.
func scalar(object gjson.Result, name string) (raw string, ok bool) {
	if !object.IsObject() {
		return "", false
	}
	v := object.Get(name)
	ok = (v.Type == gjson.String || v.Type == gjson.Number) && len(v.Raw) <= maxLeanValue
	return v.Raw, ok
}

// onlyList is the one array of objects in an object.
func onlyList(object gjson.Result) (list gjson.Result, found bool) {
	lists := 0
	object.ForEach(func(_, v gjson.Result) bool {
		if v.IsArray() {
			list = v
			lists++
		}
		return lists < 2
	})
	return list, lists == 1 && list.Get("0").IsObject()
}

func count(list gjson.Result) (n int) {
	list.ForEach(func(_, _ gjson.Result) bool {
		n++
		return true
	})
	return n
}

// form writes the lean form, with as much of the object as is named. A deletion tells of what is gone by its id alone.
func (o outcome) form(destroyed bool, names []string, size int, token string) []byte {
	w := &writer{}
	w.b = append(w.b, '{')
	switch {
	case destroyed && o.many >= 0:
		w.int("deleted", int64(o.many))
	case destroyed:
		w.bool("deleted", true)
	case o.many >= 0:
		w.int("accepted", int64(o.many))
	default:
		o.identity(w, names)
	}
	if o.status != "" {
		w.raw("status_code", []byte(o.status))
	}
	if destroyed {
		o.identity(w, names[:min(len(names), 1)])
	} else {
		w.int("data_size", int64(size))
	}
	w.text(tokenField, token)
	w.close('}')
	return w.b
}

// identity writes what names one object; many have none.
func (o outcome) identity(w *writer, names []string) {
	for _, name := range names {
		if raw, ok := scalar(o.object, name); ok && o.many < 0 {
			w.raw(name, []byte(raw))
		}
	}
}
