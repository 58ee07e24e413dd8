package answer

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// writeSummary is the content of the lean form of a write.
type writeSummary struct {
	deleted bool
	count   int          // the number of objects or calls; -1: one object, or the list that a delete answers, which is not counted
	object  gjson.Result // the only one, which may have an identity
	status  string       // the HTTP status; "": not known
}

// summarizeWrite reads the result of a write: the results of a forEach, a list of objects, an object without identity that wraps such a
// list, or one object. If the result is an HTTP function's {status, headers, body}, it reads the body.
//
// known is false if a lean form would claim what the result does not say, or would hide what the function was called for:
//
//   - the result, or an element of its list, reports a failure;
//   - it is a text, such as the output of a command, or a list of texts;
//   - it has no id, url or name, unless the function deletes.
//
// A list that a delete answers is not counted: it may be what was deleted, or what is left.
func summarizeWrite(raw []byte, deletes, forEach bool) (o writeSummary, known bool) {
	result := gjson.ParseBytes(raw)
	o = writeSummary{deleted: deletes, count: -1}
	if !forEach {
		return o, o.readResult(result)
	}
	calls := 0
	result.ForEach(func(_, v gjson.Result) bool {
		calls++
		call := o
		known = call.readResult(v)
		return known
	})
	o.count = calls
	return o, known
}

// readResult reads the result of one call.
func (o *writeSummary) readResult(result gjson.Result) (known bool) {
	o.status, o.object = httpAnswer(result)
	body := o.object
	switch {
	case saysOnlySuccess(body):
		return true
	case body.IsArray():
		return o.countList(body)
	case !body.IsObject() || o.reportsFailure(body):
		return false
	}
	list := listInEnvelope(body)
	switch {
	case hasIdentity(body, identityMembers):
		return !o.anyFailure(list)
	case o.deleted:
		return !wrapsText(body) && (!list.Exists() || o.countList(list))
	}
	return list.Get("0").Exists() && o.countList(list)
}

// countList counts the objects of a list, except for a delete.
func (o *writeSummary) countList(list gjson.Result) (known bool) {
	n, objects := 0, true
	list.ForEach(func(_, v gjson.Result) bool {
		n++
		objects = v.IsObject()
		return objects
	})
	if !o.deleted {
		o.count = n
	}
	return objects && !o.anyFailure(list)
}

func (o *writeSummary) anyFailure(list gjson.Result) (fails bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		fails = o.reportsFailure(v)
		return !fails
	})
	return fails
}

// reportsFailure reports whether an object says that the work was not done, or only in part: success or ok is false, error or errors is
// not empty, or for a delete, deleted is false or 0. No other member counts.
func (o *writeSummary) reportsFailure(object gjson.Result) (fails bool) {
	if !object.IsObject() {
		return false
	}
	object.ForEach(func(key, v gjson.Result) bool {
		switch strings.ToLower(key.String()) {
		case "success", "ok":
			fails = v.Type == gjson.False
		case "deleted":
			fails = o.deleted && (v.Type == gjson.False || v.Type == gjson.Number && v.Num == 0)
		case "error", "errors":
			fails = v.Type != gjson.False && !slices.Contains([]string{"null", `""`, "[]", "{}"}, v.Raw)
		}
		return !fails
	})
	return fails
}

// saysOnlySuccess reports whether a value says only that all went well.
func saysOnlySuccess(v gjson.Result) bool {
	return v.Type == gjson.Null || v.Type == gjson.True || v.Raw == `""`
}

// wrapsText reports whether an object wraps a text, as servers do if a result must be an object.
func wrapsText(object gjson.Result) bool {
	members, text := 0, false
	object.ForEach(func(_, v gjson.Result) bool {
		members++
		text = v.Type == gjson.String
		return members < 2
	})
	return members == 1 && text
}

// envelopes are the names under which services wrap a list that is their whole answer. Lists with other names belong to something else,
// such as the repositories of a new token.
var envelopes = []string{"items", "results", "result", "data", "entities", "relations", "records", "objects", "entries", "elements",
	"nodes",
	"rows", "values", "value", "created", "updated"}

// listInEnvelope returns the only array in an object, if it has such a name.
func listInEnvelope(object gjson.Result) (list gjson.Result) {
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

// httpAnswer splits an object of exactly status, headers and body. Any other value is its own body.
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

// identityMembers are the members that identify an object.
var identityMembers = []string{"id", "url", "name"}

// hasIdentity reports whether an object has one of the named members. It is one object then, whatever lists it has.
func hasIdentity(object gjson.Result, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := scalar(object, name)
		return ok
	})
}

// scalar returns a non-empty text or a number that an object has under a name, unless it is too long to show.
func scalar(object gjson.Result, name string) (raw string, ok bool) {
	if !object.IsObject() {
		return "", false
	}
	v := object.Get(name)
	ok = (v.Type == gjson.String && v.Str != "" || v.Type == gjson.Number) && len(v.Raw) <= maxLeanValue
	return v.Raw, ok
}

// identityChoices returns the sets of members by which the lean form may identify its object, the largest first; none if there is nothing
// to say. Many objects have no name. Of a deleted one, only the id is shown.
func (o *writeSummary) identityChoices() (choices [][]string) {
	switch {
	case o.count >= 0:
		return [][]string{nil}
	case o.deleted:
		return [][]string{{"id"}, nil}
	}
	for _, names := range [][]string{identityMembers, {"id", "url"}, {"id"}, {"url"}, {"name"}} {
		if hasIdentity(o.object, names) {
			choices = append(choices, names)
		}
	}
	return choices
}

// leanForm writes the lean form with the named members of the object. size is the size of the whole result in bytes; token fetches that
// result, or is "" if it is not stored.
func (o *writeSummary) leanForm(names []string, size int, token string) []byte {
	w := &rawjson.Writer{}
	w.B = append(w.B, '{')
	switch {
	case o.deleted && o.count >= 0:
		w.Int("deleted", int64(o.count))
	case o.deleted:
		w.Bool("deleted", true)
	case o.count >= 0:
		w.Int("accepted", int64(o.count))
	default:
		o.writeIdentity(w, names)
	}
	if o.status != "" {
		w.Raw("status_code", []byte(o.status))
	}
	if o.deleted {
		o.writeIdentity(w, names)
	} else {
		w.Int("data_size", int64(size))
	}
	if token != "" {
		w.Text(budget.TokenField, token)
	}
	w.Close('}')
	return w.B
}

func (o *writeSummary) writeIdentity(w *rawjson.Writer, names []string) {
	for _, name := range names {
		if raw, ok := scalar(o.object, name); ok {
			w.Raw(name, []byte(raw))
		}
	}
}
