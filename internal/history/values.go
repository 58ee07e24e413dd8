package history

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Values has the arguments and the result of a call, as far as they are known.
type Values struct {
	Args   json.RawMessage `json:"args,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// newValues returns the arguments and result with the secrets of the configuration, and the values of members named like a secret, replaced
// by secret.Redacted; nil: both are unknown.
func newValues(args, result []byte, scrubber *secret.Scrubber) *Values {
	if v := (&Values{Args: Shown(args, scrubber), Result: Shown(result, scrubber)}); v.Args != nil || v.Result != nil {
		return v
	}
	return nil
}

// Shown returns a JSON value for people, without the secrets of the configuration and the values of members named like a secret; nil for an
// empty one.
func Shown(value []byte, scrubber *secret.Scrubber) json.RawMessage {
	if len(value) == 0 {
		return nil
	}
	return scrubber.JSON(hideNamedSecrets(value, func([]byte) []byte { return []byte(`"` + secret.Redacted + `"`) }))
}

var hideNamedSecrets = secret.Redaction(nil)

// Difference is a place where two JSON values differ. A value that does not exist is left out.
type Difference struct {
	At string          `json:"at"` // a JSON Pointer; "": the whole value
	A  json.RawMessage `json:"a,omitempty"`
	B  json.RawMessage `json:"b,omitempty"`
}

const (
	maxDifferences = 100 // the maximum number of differences that are returned
	maxDiffDepth   = 100 // the depth below which values are compared as a whole
)

// differences returns the first maxDifferences places where two values differ. Numbers are compared by value. In arrays, a common beginning
// and end are skipped, and the elements between are compared one by one.
func differences(a, b []byte) []Difference {
	d := differ{}
	d.compare("", gjson.ParseBytes(a), gjson.ParseBytes(b), 0)
	return d.list
}

type differ struct{ list []Difference }

func (d *differ) add(at string, a, b gjson.Result) {
	d.list = append(d.list, Difference{at, json.RawMessage(a.Raw), json.RawMessage(b.Raw)})
}

func (d *differ) compare(at string, a, b gjson.Result, depth int) {
	switch {
	case len(d.list) == maxDifferences || sameValue(a, b):
	case depth == maxDiffDepth:
		d.add(at, a, b)
	case a.IsObject() && b.IsObject():
		d.objects(at, a, b, depth)
	case a.IsArray() && b.IsArray():
		d.arrays(at, a.Array(), b.Array(), depth)
	default:
		d.add(at, a, b)
	}
}

func (d *differ) objects(at string, a, b gjson.Result, depth int) {
	remaining := b.Map()
	a.ForEach(func(key, value gjson.Result) bool {
		d.compare(fault.Key(at, key.Str), value, remaining[key.Str], depth+1)
		delete(remaining, key.Str)
		return true
	})
	b.ForEach(func(key, value gjson.Result) bool {
		if _, left := remaining[key.Str]; left {
			d.compare(fault.Key(at, key.Str), gjson.Result{}, value, depth+1)
		}
		return true
	})
}

func (d *differ) arrays(at string, a, b []gjson.Result, depth int) {
	first := 0
	for len(a) > 0 && len(b) > 0 && sameValue(a[0], b[0]) {
		a, b, first = a[1:], b[1:], first+1
	}
	for len(a) > 0 && len(b) > 0 && sameValue(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for i := range max(len(a), len(b)) {
		var one, other gjson.Result
		if i < len(a) {
			one = a[i]
		}
		if i < len(b) {
			other = b[i]
		}
		d.compare(fault.Index(at, first+i), one, other, depth+1)
	}
}

// Same reports whether two JSON values, or none, are equal. Marks of different secrets are not.
func Same(a, b []byte) bool { return sameValue(gjson.ParseBytes(a), gjson.ParseBytes(b)) }

func sameValue(a, b gjson.Result) bool {
	return a.Raw == b.Raw || a.Raw != "" && b.Raw != "" && bytes.Equal(canonical([]byte(a.Raw)), canonical([]byte(b.Raw)))
}

// canonical returns the spelling that equal values share; value itself if it is not valid JSON.
func canonical(value []byte) []byte {
	if text, err := rawjson.AppendCanonical(nil, value); err == nil {
		return text
	}
	return value
}

// comparableValue replaces every mark of a masked secret with the same mark: recordings and journals use different ones.
func comparableValue(value []byte) []byte {
	if !bytes.Contains(value, []byte(`secret`)) {
		return value
	}
	return replaceMarks(value)
}

// replaceMarks replaces each mark of a secret with [redacted].
func replaceMarks(value []byte) []byte {
	if secret.DigestOf(value) != "" {
		return []byte(`"` + secret.Redacted + `"`)
	}
	root := gjson.ParseBytes(value)
	if !root.IsObject() && !root.IsArray() {
		return value
	}
	var out strings.Builder
	from := 0
	root.ForEach(func(_, member gjson.Result) bool {
		if strings.Contains(member.Raw, "secret") {
			out.WriteString(root.Raw[from:member.Index])
			out.Write(replaceMarks([]byte(member.Raw)))
			from = member.Index + len(member.Raw)
		}
		return true
	})
	return []byte(out.String() + root.Raw[from:])
}
