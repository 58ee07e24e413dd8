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

// key stands for a subject: a part of its hash, so that no subject is kept, however long it is.
type key [16]byte

// named is a subject of a call, with the JSON Pointer of its place in the arguments.
type named struct {
	key key
	at  string
}

// keyOf is the key of a value; false where it is no subject. A value and what reads the same in a URL or a text, such as 7
// and "7", are one: sources are not of one mind about the type of their ids.
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
		text = number(v.Raw)
	case gjson.True, gjson.False:
		kind, text = 'w', v.Raw
	case gjson.JSON:
		kind, text = 'j', composed(v.Raw)
	}
	hash := sha256.New()
	hash.Write([]byte{kind})
	hash.Write([]byte(text))
	return key(hash.Sum(nil)[:len(key{})]), true
}

// number is one spelling of a number: integers stay as they are, however large.
func number(raw string) string {
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

// composed is one spelling of an object or an array; of one with a key that stands twice, the spelling it has.
func composed(raw string) string {
	value := jsontext.Value(raw)
	if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return raw
	}
	return string(value)
}

// subjectsOf are the subjects that arguments name.
func subjectsOf(args []byte, argument string) (list []named) {
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		if name.Str != argument {
			return true
		}
		at := fault.Key("", argument)
		if !value.IsArray() {
			if k, ok := keyOf(value); ok {
				list = append(list, named{k, at})
			}
			return false
		}
		i := 0
		value.ForEach(func(_, element gjson.Result) bool {
			if k, ok := keyOf(element); ok {
				list = append(list, named{k, fault.Index(at, i)})
			}
			i++
			return true
		})
		return false
	})
	return list
}

// found are the subjects that a result, compact JSON, names under a member of the folded name, at most limit and the first of
// them. It is one pass over the bytes, whatever their nesting: what stands below such a member is not looked into.
func found(result []byte, folded string, limit int) (list []key) {
	for i := 0; i < len(result) && len(list) < limit; {
		start := bytes.IndexByte(result[i:], '"')
		if start < 0 {
			break
		}
		start += i
		end := rawjson.StringEnd(result, start)
		i = end
		if end >= len(result) || result[end] != ':' || !spells(result[start:end], folded) {
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

// fold drops case and the separators _ and - of a name.
func fold(name string) string { return strings.ToLower(separators.Replace(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// spells reports whether a quoted key is the folded name. It is called for every key of a result, few of which are worth a
// fold.
func spells(quoted []byte, folded string) bool {
	if len(quoted)-2 < utf8.RuneCountInString(folded) { // in lower case a character may have more bytes, or fewer
		return false
	}
	if bytes.IndexByte(quoted, '\\') < 0 && quoted[1]|0x20 != folded[0]|0x20 && quoted[1] != '_' && quoted[1] != '-' && quoted[1] < 0x80 && folded[0] < 0x80 {
		return false
	}
	return fold(gjson.ParseBytes(quoted).Str) == folded
}
