package openapi

import (
	"slices"
	"strings"
)

// pathPiece is fixed text of a path, or a parameter.
type pathPiece struct {
	text      string // the fixed text, escaped; "" for a parameter
	parameter int    // the index in op.parameters; -1: fixed text
}

// pathPieces splits a path template (OpenAPI 3.0.4, section 4.8.8.1).
func pathPieces(template string, parameters []parameter) (pieces []pathPiece, reason string) {
	for template != "" {
		fixed, rest, ok := strings.Cut(template, "{")
		if fixed != "" {
			pieces = append(pieces, pathPiece{escapeLiteral(fixed, false), -1})
		}
		if !ok {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, "its path has a brace that is not closed"
		}
		at := slices.IndexFunc(parameters, func(p parameter) bool { return p.in == "path" && p.name == name })
		if at < 0 {
			return nil, "its path has {" + name + "}, for which there is no parameter"
		}
		pieces = append(pieces, pathPiece{parameter: at})
		template = after
	}
	return pieces, ""
}

// escapeLiteral escapes characters that must not appear in a path or a query, and keeps existing escapes.
func escapeLiteral(text string, query bool) string {
	allowed := "!$&'()*+,;=:@/"
	if query {
		allowed += "?"
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			out.WriteString(text[i : i+3])
			i += 2
			continue
		}
		out.WriteString(escapeBut(text[i:i+1], allowed))
	}
	return out.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
