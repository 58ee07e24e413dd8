package refs

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// interpolationStart matches dollars before a brace that begins an interpolation.
var interpolationStart = regexp.MustCompile(`\$+\{(\$|[0-9]+[.\[])`)

// Literal escapes a compact JSON value: a template of the result resolves to value. Mentions of $item, $input and earlier steps
// are not escaped, so these must not be in scope where the template is compiled. The result may be value itself.
func Literal(value []byte) []byte {
	if !strings.Contains(rawjson.View(value), "$") && !strings.Contains(rawjson.View(value), `\u`) {
		return value
	}
	out := make([]byte, 0, len(value)+16)
	done := 0
	for start, end := range rawjson.Scalars(value) {
		if isKey := end < len(value) && value[end] == ':'; isKey || value[start] != '"' {
			continue
		}
		text := gjson.ParseBytes(value[start:end]).Str
		if escaped := literalText(text); escaped != text {
			out = append(append(out, value[done:start]...), rawjson.AppendQuote(nil, escaped)...)
			done = end
		}
	}
	return append(out, value[done:]...)
}

func literalText(text string) string {
	leading := interpolationStart.FindStringIndex(text)
	escaped := interpolationStart.ReplaceAllStringFunc(text, func(match string) string {
		dollars := strings.IndexByte(match, '{')
		return match[:dollars] + match
	})
	if strings.HasPrefix(text, "$") && (leading == nil || leading[0] > 0) {
		escaped = "$" + escaped
	}
	return escaped
}
