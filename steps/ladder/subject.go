package ladder

import (
	"bytes"
	"crypto/sha256"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// key is a truncated hash of a subject. It is stored in place of the subject, however long that is.
type key [16]byte

// subject is a subject of a call, with the JSON Pointer of its position in the arguments.
type subject struct {
	key key
	at  string
}

// keyOf returns the key of a value; false if it is no subject. Values that read the same in a URL or a text, such as 7 and
// "7", are the same subject: sources differ in the type of their ids.
func keyOf(v gjson.Result) (key, bool) {
	kind, text := byte('t'), v.Str
	switch v.Type {
	case gjson.Null:
		return key{}, false
	case gjson.String:
		if text == "" {
			return key{}, false
		}
	case gjson.Number:
		text = canonicalNumber(v.Raw)
	case gjson.True, gjson.False:
		kind, text = 'w', v.Raw
	case gjson.JSON:
		kind, text = 'j', canonicalComposite(v.Raw)
	}
	hash := sha256.New()
	hash.Write([]byte{kind})
	hash.Write([]byte(text))
	return key(hash.Sum(nil)[:len(key{})]), true
}

// canonicalNumber returns the canonical form of a number: integers stay as they are, however large.
func canonicalNumber(raw string) string {
	if !strings.ContainsAny(raw, ".eE") {
		if raw == "-0" {
			return "0"
		}
		return raw
	}
	value, err := strconv.ParseFloat(raw, 64)
	switch {
	case err != nil: // out of range
		return raw
	case value == 0:
		return "0"
	case math.Abs(value) < 1e21:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// canonicalComposite returns the canonical form of an object or an array; with a duplicate key, the value as written.
func canonicalComposite(raw string) string {
	value := jsontext.Value(raw)
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return raw
	}
	return string(value)
}

// subjectsOf returns the subjects in arguments.
func subjectsOf(args []byte, argument string) (list []subject) {
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		if name.Str != argument {
			return true
		}
		at := fault.Key("", argument)
		if !value.IsArray() {
			if k, ok := keyOf(value); ok {
				list = append(list, subject{k, at})
			}
			return false
		}
		i := 0
		value.ForEach(func(_, element gjson.Result) bool {
			if k, ok := keyOf(element); ok {
				list = append(list, subject{k, fault.Index(at, i)})
			}
			i++
			return true
		})
		return false
	})
	return list
}

// subjectsIn returns at most the first limit subjects that a result, compact JSON, names under a member of the folded name. It makes one
// pass over the bytes, whatever their nesting, and does not look inside such members.
func subjectsIn(result []byte, folded string, limit int) (list []key) {
	for i := 0; i < len(result) && len(list) < limit; {
		start := bytes.IndexByte(result[i:], '"')
		if start < 0 {
			break
		}
		start += i
		end := rawjson.StringEnd(result, start)
		i = end
		if end >= len(result) || result[end] != ':' || !matchesName(result[start:end], folded) {
			continue
		}
		i = rawjson.ValueEnd(result, end+1)
		value := gjson.ParseBytes(result[end+1 : i])
		if !value.IsArray() {
			if k, ok := keyOf(value); ok {
				list = append(list, k)
			}
			continue
		}
		value.ForEach(func(_, element gjson.Result) bool {
			if k, ok := keyOf(element); ok {
				list = append(list, k)
			}
			return len(list) < limit
		})
	}
	return list
}

// fold removes case and the separators _ and - from a name.
func fold(name string) string { return strings.ToLower(separators.Replace(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// matchesName reports whether a quoted key folds to the name. It is called for every key of a result, so it avoids folding
// most of them.
func matchesName(quoted []byte, folded string) bool {
	if len(quoted)-2 < utf8.RuneCountInString(folded) { // in lower case a character may have more or fewer bytes
		return false
	}
	if bytes.IndexByte(quoted, '\\') < 0 && quoted[1]|0x20 != folded[0]|0x20 && quoted[1] != '_' && quoted[1] != '-' && quoted[1] < 0x80 &&
		folded[0] < 0x80 {
		return false
	}
	return fold(gjson.ParseBytes(quoted).Str) == folded
}
