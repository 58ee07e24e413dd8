package refs

import (
	"regexp"
	"strings"

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
		text := rawjson.Unquote(rawjson.View(value[start:end]))
		if escaped := literalText(text); escaped != text {
			out = append(append(out, value[done:start]...), rawjson.AppendQuote(nil, escaped)...)
			done = end
		}
	}
	return append(out, value[done:]...)
}

func literalText(text string) string {
	leading := interpolationStart.FindStringIndex(text)
	var out strings.Builder
	rest := text
	for at := leading; at != nil; at = interpolationStart.FindStringIndex(rest) {
		brace := at[0] + strings.IndexByte(rest[at[0]:], '{')
		out.WriteString(rest[:brace] + rest[at[0]:brace+1]) // the dollars twice
		rest = rest[brace+1:]                               // what follows the brace may begin another interpolation
	}
	out.WriteString(rest)
	if strings.HasPrefix(text, "$") && (leading == nil || leading[0] > 0) {
		return "$" + out.String()
	}
	return out.String()
}
