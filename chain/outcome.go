package chain

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// outcome is what a lean form says of a write.
type outcome struct {
	deleted bool
	many    int          // how many it was; -1: one
	object  gjson.Result // of one: what may have an identity
	status  string       // the HTTP status, "" where it is not told
}

// outcomeOf reads a write's result: each of a forEach's, a list of objects, such a list in an object without identity, or
// one thing. An HTTP function's answer {status, headers, body} tells its status, and what its body says. tells is false
// where a lean form would say what the result does not bear out, or would hide what the function is called for:
//
//   - the result, or an element of its list, says that it failed;
//   - it is a text, such as the output of a command, or has texts in the place of objects;
//   - it has no id, url or name, unless the function deletes.
//
// A list that a deletion answers is not counted: it may be what is gone, or what is left.
func outcomeOf(raw []byte, deletes, each bool) (o outcome, tells bool) {
	result := gjson.ParseBytes(raw)
	o = outcome{deleted: deletes, many: -1}
	if !each {
		return o, o.read(result)
	}
	calls := 0
	result.ForEach(func(_, v gjson.Result) bool {
		calls++
		one := o
		tells = one.read(v)
		return tells
	})
	o.many = calls
	return o, tells
}

// read reads what one call answered.
func (o *outcome) read(result gjson.Result) (tells bool) {
	o.status, o.object = httpAnswer(result)
	body := o.object
	switch {
	case silent(body):
		return true
	case body.IsArray():
		return o.list(body)
	case !body.IsObject() || o.denies(body):
		return false
	}
	list := enveloped(body)
	switch {
	case identified(body, identity):
		return !o.anyDenies(list)
	case o.deleted:
		return !wrapsText(body) && (!list.Exists() || o.list(list))
	}
	return list.Get("0").Exists() && o.list(list)
}

// list counts the objects of a list, unless it is a deletion's.
func (o *outcome) list(list gjson.Result) (tells bool) {
	n, objects := 0, true
	list.ForEach(func(_, v gjson.Result) bool {
		n++
		objects = v.IsObject()
		return objects
	})
	if !o.deleted {
		o.many = n
	}
	return objects && !o.anyDenies(list)
}

func (o *outcome) anyDenies(list gjson.Result) (denies bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		denies = o.denies(v)
		return !denies
	})
	return denies
}

// denies reports whether an object says that what was asked was not done, or not wholly: success or ok is false, error or
// errors is not empty; of a deletion, deleted is false or 0. No other word is looked at.
func (o *outcome) denies(object gjson.Result) (denies bool) {
	if !object.IsObject() {
		return false
	}
	object.ForEach(func(key, v gjson.Result) bool {
		switch strings.ToLower(key.String()) {
		case "success", "ok":
			denies = v.Type == gjson.False
		case "deleted":
			denies = o.deleted && (v.Type == gjson.False || v.Type == gjson.Number && v.Num == 0)
		case "error", "errors":
			denies = v.Type != gjson.False && !slices.Contains([]string{"null", `""`, "[]", "{}"}, v.Raw)
		}
		return !denies
	})
	return denies
}

// silent reports whether a value says no more than that all went well.
func silent(v gjson.Result) bool {
	return v.Type == gjson.Null || v.Type == gjson.True || v.Raw == `""`
}

// wrapsText reports whether an object is a text in a wrapper, as servers make one where a result must be an object.
func wrapsText(object gjson.Result) bool {
	members, text := 0, false
	object.ForEach(func(_, v gjson.Result) bool {
		members++
		text = v.Type == gjson.String
		return members < 2
	})
	return members == 1 && text
}

// envelopes are the names under which services answer a list that is their whole answer. Lists of other names are parts of
// something else, such as the repositories that a new token is for.
var envelopes = []string{"items", "results", "result", "data", "entities", "relations", "records", "objects", "entries", "elements", "nodes",
	"rows", "values", "value", "created", "updated"}

// enveloped is the only array in an object, where it has such a name.
func enveloped(object gjson.Result) (list gjson.Result) {
	lists, name := 0, ""
	object.ForEach(func(key, v gjson.Result) bool {
		if v.IsArray() {
			list, name = v, key.String()
			lists++
		}
		return lists < 2
	})
	if lists != 1 || !slices.Contains(envelopes, strings.ToLower(name)) {
		return gjson.Result{}
	}
	return list
}

// httpAnswer takes apart an object of exactly a status, headers and a body; any other value is its own body.
func httpAnswer(v gjson.Result) (status string, body gjson.Result) {
	if !v.IsObject() {
		return "", v
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
	if members == 3 && headers && body.Exists() && code.Type == gjson.Number && code.Num >= 100 && code.Num < 600 {
		return code.Raw, body
	}
	return "", v
}

// identity are the members that name one thing.
var identity = []string{"id", "url", "name"}

// identified reports whether an object has one of these members: it is one thing, whatever lists it holds.
func identified(object gjson.Result, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := scalar(object, name)
		return ok
	})
}

// scalar is the text or number that an object has by that name, short enough to be told; an empty text tells nothing.
func scalar(object gjson.Result, name string) (raw string, ok bool) {
	if !object.IsObject() {
		return "", false
	}
	v := object.Get(name)
	ok = (v.Type == gjson.String && v.Str != "" || v.Type == gjson.Number) && len(v.Raw) <= maxLeanValue
	return v.Raw, ok
}

// namings are the members by which a lean form may name its object, the fullest first; none where it would say nothing.
// Many have no name; of what is gone the id alone is told.
func (o *outcome) namings() (choices [][]string) {
	switch {
	case o.many >= 0:
		return [][]string{nil}
	case o.deleted:
		return [][]string{{"id"}, nil}
	}
	for _, names := range [][]string{identity, {"id", "url"}, {"id"}, {"url"}, {"name"}} {
		if identified(o.object, names) {
			choices = append(choices, names)
		}
	}
	return choices
}

// form writes the lean form, with as much of the object as is named.
func (o *outcome) form(names []string, size int, token string) []byte {
	w := &writer{}
	w.b = append(w.b, '{')
	switch {
	case o.deleted && o.many >= 0:
		w.int("deleted", int64(o.many))
	case o.deleted:
		w.bool("deleted", true)
	case o.many >= 0:
		w.int("accepted", int64(o.many))
	default:
		o.names(w, names)
	}
	if o.status != "" {
		w.raw("status_code", []byte(o.status))
	}
	if o.deleted {
		o.names(w, names)
	} else {
		w.int("data_size", int64(size))
	}
	if token != "" {
		w.text(tokenField, token)
	}
	w.close('}')
	return w.b
}

func (o *outcome) names(w *writer, names []string) {
	for _, name := range names {
		if raw, ok := scalar(o.object, name); ok {
			w.raw(name, []byte(raw))
		}
	}
}
