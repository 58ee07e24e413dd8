package openapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
)

// expansion describes how a style formats a value. OpenAPI's table of styles is RFC 6570's table of operators (its appendix A) with
// other delimiters.
type expansion struct {
	first     string // precedes everything
	separator string // stands between exploded values
	inner     string // stands between values that are not exploded
	showName  bool   // the parameter's name precedes the value
	ifEmpty   string // stands between the name and an empty value
}

// expansions holds the expansion of each style but deepObject.
var expansions = map[string]expansion{
	"simple":         {separator: ",", inner: ",", ifEmpty: "="},
	"label":          {first: ".", separator: ".", inner: ",", ifEmpty: "="},
	"matrix":         {first: ";", separator: ";", inner: ",", showName: true},
	"form":           {separator: "&", inner: ",", showName: true, ifEmpty: "="},
	"spaceDelimited": {separator: "&", inner: "%20", showName: true, ifEmpty: "="},
	"pipeDelimited":  {separator: "&", inner: "%7C", showName: true, ifEmpty: "="},
}

// cookieForm is the style form in a Cookie header, for which RFC 6265 requires other delimiters.
var cookieForm = expansion{separator: "; ", inner: ",", showName: true, ifEmpty: "="}

// expand formats a value. It returns false if there is nothing to send: an empty list is undefined (RFC 6570, section 2.3).
func (e expansion) expand(name string, explode bool, s styledValue, escape func(string) string) (string, bool) {
	if len(s.texts) == 0 {
		return "", false
	}
	texts := make([]string, len(s.texts))
	for i, text := range s.texts {
		texts[i] = escape(text)
	}
	pairs := func(names func(int) string) string {
		for i, text := range texts {
			texts[i] = e.pair(names(i), text)
		}
		return e.first + strings.Join(texts, e.separator)
	}
	switch {
	case s.kind == '{' && explode:
		return pairs(func(i int) string { return escape(s.names[i]) }), true
	case s.kind == '[' && explode && e.showName:
		escaped := escape(name)
		return pairs(func(int) string { return escaped }), true
	case s.kind == '[' && explode:
		return e.first + strings.Join(texts, e.separator), true
	case s.kind == '{':
		for i := range texts {
			texts[i] = escape(s.names[i]) + e.inner + texts[i]
		}
	}
	joined := strings.Join(texts, e.inner)
	if e.showName {
		joined = e.pair(escape(name), joined)
	}
	return e.first + joined, true
}

func (e expansion) pair(name, text string) string {
	if text == "" {
		return name + e.ifEmpty
	}
	return name + "=" + text
}

const upperHex = "0123456789ABCDEF"

// escapeAll percent-encodes all but the unreserved characters of RFC 3986, section 2.3.
func escapeAll(text string) string { return escapeBut(text, "") }

// escapeReserved is escapeAll for parameters that allow reserved characters. It keeps the reserved characters that neither end a query
// value nor change its meaning (many servers read "+" as a blank).
func escapeReserved(text string) string { return escapeBut(text, ":/?@!$'()*,;=") }

// escapeReservedItem is escapeReserved for the elements of a list, which a comma would end.
func escapeReservedItem(text string) string { return escapeBut(text, ":/?@!$'()*;") }

// escapeBut percent-encodes all bytes but the unreserved characters and those of allowed.
func escapeBut(text, allowed string) string {
	isAllowed := func(c byte) bool { return unreserved(c) || strings.IndexByte(allowed, c) >= 0 }
	first := 0
	for first < len(text) && isAllowed(text[first]) {
		first++
	}
	if first == len(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text) + 8)
	out.WriteString(text[:first])
	for i := first; i < len(text); i++ {
		if c := text[i]; isAllowed(c) {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(upperHex[c>>4])
			out.WriteByte(upperHex[c&15])
		}
	}
	return out.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// checkSeparator rejects a list or an object with a text that contains the separator, because the service would read other elements.
func (p *parameter) checkSeparator(s styledValue, separator string) *fault.Error {
	if s.kind == 0 {
		return nil
	}
	// The capacity of names is its length here, so that append copies it.
	for _, text := range append(s.names[:len(s.names):len(s.names)], s.texts...) {
		if strings.Contains(text, separator) {
			return badArgument(p.arg, "%s is sent as a list with %q between its texts, so none of them may contain it", p.arg, separator)
		}
	}
	return nil
}

func verbatim(text string) string { return text }

// badArgument returns the fault of one argument.
func badArgument(arg, format string, a ...any) *fault.Error {
	f := fault.New(fault.BadArguments, format, a...)
	f.At = fault.Key("", arg)
	return f
}

// read returns a parameter's value in the form that the styles format. A value with a media type of its own is one text, its JSON.
func (p *parameter) read(value jsontext.Value) styledValue {
	if p.mediaType != "" {
		return styledValue{texts: []string{string(value)}}
	}
	return newStyledValue(value)
}

// pathText formats a path parameter. An argument must fill exactly one part of the path, so a value that is empty, or that would add or
// remove a segment, is rejected.
func (p *parameter) pathText(value jsontext.Value) (string, *fault.Error) {
	s := p.read(value)
	for _, text := range append(s.names[:len(s.names):len(s.names)], s.texts...) {
		if hasDotSegment(text) {
			return "", badArgument(p.arg, `%s is a part of the path, in which "." and ".." are refused`, p.arg)
		}
	}
	style, ok := expansions[p.style]
	if !ok || p.style == "form" {
		style = expansions["simple"]
	}
	if p.style == "label" && p.explode {
		if f := p.checkSeparator(s, "."); f != nil { // escaping keeps the dot
			return "", f
		}
	}
	text, _ := style.expand(p.name, p.explode, s, escapeAll)
	if text == "" || s.kind == 0 && s.texts[0] == "" {
		return "", badArgument(p.arg, "%s is a part of the path, which cannot be empty", p.arg)
	}
	return text, nil
}

// hasDotSegment reports whether a text contains a segment "." or "..", also between slashes. Escaping does not help: some servers unescape
// before they resolve the path.
func hasDotSegment(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }),
		func(segment string) bool { return segment == "." || segment == ".." })
}

// queryText formats a query parameter; "" if there is nothing to send.
func (p *parameter) queryText(value jsontext.Value) (string, *fault.Error) {
	return p.pairsText(value, p.escaper)
}

// escaper returns the function that escapes the texts of a value in a query.
func (p *parameter) escaper(s styledValue) func(string) string {
	switch {
	case !p.allowReserved:
		return escapeAll
	case s.kind == 0:
		return escapeReserved
	}
	return escapeReservedItem
}

// pairsText formats a parameter of a query or a field of a form, as pairs joined with "&"; "" if there is nothing to send. escaper
// returns the function that escapes the texts of a value.
func (p *parameter) pairsText(value jsontext.Value, escaper func(styledValue) func(string) string) (string, *fault.Error) {
	if p.style == "deepObject" && p.mediaType == "" && (value.Kind() == '{' || value.Kind() == '[') {
		var pairs []string
		writeDeepObject(p.name, value, func(name, text string) {
			pairs = append(pairs, escaper(styledValue{kind: '{'})(name)+"="+escaper(styledValue{})(text))
		})
		return strings.Join(pairs, "&"), nil
	}
	s := p.read(value)
	style, ok := expansions[p.style]
	if !ok || !style.showName || style.first != "" {
		style = expansions["form"]
	}
	if separator := map[string]string{"spaceDelimited": " ", "pipeDelimited": "|"}[p.style]; separator != "" && !p.explode {
		if f := p.checkSeparator(s, separator); f != nil {
			return "", f
		}
	}
	text, _ := style.expand(p.name, p.explode, s, escaper(s))
	return text, nil
}

// connectionHeaders belong to the connection or to the framing of the message; an argument must not change them.
var connectionHeaders = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Http2-Settings": true,
	"Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// setHeader sets a header parameter. Its text is not escaped: OpenAPI has no escapes in headers.
func (p *parameter) setHeader(header http.Header, value jsontext.Value) *fault.Error {
	s := p.read(value)
	if f := p.checkSeparator(s, ","); f != nil {
		return f
	}
	text, ok := expansions["simple"].expand(p.name, p.explode, s, verbatim)
	switch {
	case !ok:
		return nil
	case connectionHeaders[http.CanonicalHeaderKey(p.name)]:
		return badArgument(p.arg, "the header %s is set by onecall: leave it out", p.name)
	case !httpguts.ValidHeaderFieldName(p.name):
		return badArgument(p.arg, "%q is not a header name", p.name)
	case !httpguts.ValidHeaderFieldValue(text):
		return badArgument(p.arg, "the value of a header cannot hold line breaks or other control characters")
	}
	header.Set(p.name, text)
	return nil
}

// cookieText formats a cookie parameter, escaped: a cookie's value cannot contain blanks, commas, semicolons or quotes. It
// returns "" if there is nothing to send.
func (p *parameter) cookieText(value jsontext.Value) string {
	text, _ := cookieForm.expand(p.name, p.explode, p.read(value), escapeAll)
	return text
}
