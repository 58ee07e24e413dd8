package http

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	uritemplate "github.com/std-uritemplate/std-uritemplate/go/v2"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
)

// urlTemplate is the template of a URL whose scheme and host are fixed. Values cannot leave their positions: a path keeps its
// segments, a query its names.
type urlTemplate struct {
	text      string
	origin    string // scheme://host:port/
	host      string // the host as errors show it
	authority string // the authority as the template has it
	variables []variable
}

// variable is a variable of a template, with the requirements of its positions.
type variable struct {
	name     string
	path     bool // the variable is in the path: it must not be empty
	required bool // it stands without an operator, as {x}: the URL would be incomplete without a value
	lists    bool // an array or an object is expanded to several values
}

// schema returns the schema of a variable for an endpoint without a schema of its own.
func (v *variable) schema() string {
	if v.lists {
		return `{"type":["array","string","number","boolean"],"items":` + scalarSchema + `}`
	}
	return scalarSchema
}

var (
	// The origin must end at a literal / or ?, so that no value can be part of the host.
	templateOrigin = regexp.MustCompile(`^(?i:https?)://([^/?#{}\\]+)(?:[/?]|$)`)
	expression     = regexp.MustCompile(`\{([^{}]*)\}`)
	variableSpec   = regexp.MustCompile(`^([A-Za-z0-9_]+)(\*|:[1-9][0-9]{0,3})?$`)
	// Characters that a template must not contain outside expressions, and a % without two hexadecimal digits.
	notLiteral = regexp.MustCompile("[\x00-\x20\x7f<>\"\\\\^|{}`]|%(?:[^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)")
)

// parseURLTemplate parses a template. problem says why the template cannot be used; "" if it can. It does not quote the template, which
// may contain a secret.
func parseURLTemplate(text string) (t *urlTemplate, problem string) {
	switch origin := templateOrigin.FindStringSubmatch(text); {
	case text == "":
		return nil, "the URL is missing: write it as https://api.example.com/v1/{city}{?units}"
	case origin == nil:
		return nil, "the URL must begin with http:// or https:// and a host without variables, followed by / or ?"
	case strings.Contains(expression.ReplaceAllString(text, ""), "#"):
		return nil, "a fragment, after #, is never sent: leave it out"
	case notLiteral.MatchString(expression.ReplaceAllString(text, "")) || !utf8.ValidString(text):
		return nil, "the URL is not a URI template (RFC 6570): look at its braces, and write special characters as %XX"
	default:
		t = &urlTemplate{text: text, authority: origin[1]}
	}
	scheme, _, _ := strings.Cut(text, "://")
	u, err := url.Parse(strings.ToLower(scheme) + "://" + t.authority + "/")
	if err != nil {
		return nil, "the host of the URL is not valid"
	}
	if t.host = egress.Host(u); t.authorityProblem(u) != "" {
		return nil, t.authorityProblem(u)
	}
	u.Host = t.host
	t.origin = u.String()
	path, _, _ := strings.Cut(expression.ReplaceAllString(strings.TrimPrefix(text, scheme+"://"+t.authority), "x"), "?")
	if climbs(path) {
		return nil, `the path of the URL must not hold "." or ".."`
	}
	return t, t.parseExpressions(text)
}

// authorityProblem says why a URL's host or port cannot be called; "" if they can.
func (t *urlTemplate) authorityProblem(u *url.URL) string {
	rules, err := new(egress.Rules).WithURLs(u.String())
	if err == nil {
		err = rules.Check(u)
	}
	if f, ok := fault.As(err); ok {
		return f.Message
	}
	return ""
}

// parseExpressions records the variables, and rejects expressions with which a value could change other parts of the URL. It returns ""
// if there is no problem.
func (t *urlTemplate) parseExpressions(text string) (problem string) {
	for _, at := range expression.FindAllStringSubmatchIndex(text, -1) {
		before, inside, after := text[:at[0]], text[at[2]:at[3]], text[at[1]:]
		inQuery := strings.Contains(expression.ReplaceAllString(before, ""), "?")
		operator := ""
		if inside != "" && strings.ContainsAny(inside[:1], "+#./;?&") {
			operator, inside = inside[:1], inside[1:]
		}
		switch {
		case operator == "+" || operator == "#":
			return "{+x} and {#x} let a value change the rest of the URL: write {x}"
		case operator == "?" && (inQuery || after != ""):
			return "{?x} begins the query and must end the URL: name all its variables in it, as {?x,y}; after a ? write {&x}"
		case operator == "&" && !inQuery:
			return "{&x} continues a query and needs a ? before it: write {?x}"
		case inQuery && (operator == "." || operator == "/" || operator == ";"):
			return "{" + operator + "x} is for the path: in the query write {&x}"
		}
		for spec := range strings.SplitSeq(inside, ",") {
			match := variableSpec.FindStringSubmatch(spec)
			if match == nil {
				return "a variable is a name of letters, digits and _, with an optional * or colon and length after it"
			}
			t.addVariable(variable{name: match[1], path: !inQuery && operator != "?", required: operator == "", lists: match[2] == "*"})
		}
	}
	return ""
}

// addVariable adds a variable. If it occurs several times, it is in the path or required if one occurrence is, and lists only if all do.
func (t *urlTemplate) addVariable(v variable) {
	i := slices.IndexFunc(t.variables, func(existing variable) bool { return existing.name == v.name })
	if i < 0 {
		t.variables = append(t.variables, v)
		return
	}
	existing := &t.variables[i]
	existing.path, existing.required, existing.lists = existing.path || v.path, existing.required || v.required, existing.lists && v.lists
}

// literalQuery returns the query without its expressions.
func (t *urlTemplate) literalQuery() string {
	_, query, _ := strings.Cut(expression.ReplaceAllString(t.text, ""), "?")
	return query
}

// expand fills in the arguments. It fails with bad_arguments if one does not fit; At names the argument.
func (t *urlTemplate) expand(args gjson.Result) (*url.URL, error) {
	values := uritemplate.Substitutions{}
	for _, v := range t.variables {
		value, problem := templateValue(args.Get(v.name))
		switch {
		case problem != "":
			return nil, badArgument(v.name, problem)
		case value == nil && v.required:
			return nil, badArgument(v.name, "the URL needs a value for "+v.name)
		case v.path && holdsEmpty(value):
			return nil, badArgument(v.name, v.name+" is in the path of the URL and must not be empty")
		}
		if value != nil {
			values[v.name] = value
		}
	}
	text, err := uritemplate.Expand(t.text, values)
	if err != nil { // for instance, the argument is an object and the variable has a length
		return nil, fault.New(fault.BadArguments, "the arguments do not fit into the URL: a placeholder with a length takes a string")
	}
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(u.Host, t.authority) || u.User != nil || u.Fragment != "" {
		return nil, fault.New(fault.BadArguments, "the arguments do not fit into the URL")
	}
	if climbs(u.EscapedPath()) {
		return nil, t.climbFault(args)
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

// holdsEmpty reports whether a value would leave a segment of the path empty, which changes the URL.
func holdsEmpty(value any) bool {
	switch value := value.(type) {
	case string:
		return value == ""
	case []string:
		return slices.Contains(value, "")
	case map[string]string:
		for name, element := range value {
			if name == "" || element == "" {
				return true
			}
		}
	}
	return false
}

// climbs reports whether a path has a segment "." or "..". An escaped slash also separates segments, because a server may unescape
// it.
func climbs(escaped string) bool {
	for segment := range strings.SplitSeq(escaped, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return true
		}
		for name := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
			if name == "." || name == ".." {
				return true
			}
		}
	}
	return false
}

// climbFault returns the fault of a path that climbs. At names an argument that may cause it.
func (t *urlTemplate) climbFault(args gjson.Result) *fault.Error {
	f := fault.New(fault.BadArguments, `a value must not be "." or "..", nor contain one between slashes: the URL would have another path`)
	for _, v := range t.variables {
		if v.path && strings.Contains(args.Get(v.name).String(), ".") {
			f.At = fault.Key("", v.name)
			break
		}
	}
	return f
}

// templateValue converts an argument for a template: a string, a list or a map of strings; nil if it is missing, null, or an
// empty list or object. problem says why it does not fit; "" if it does.
func templateValue(arg gjson.Result) (value any, problem string) {
	list, object := []string{}, map[string]string{}
	switch {
	case arg.Type == gjson.Null: // the argument is null or missing
		return nil, ""
	case arg.Type != gjson.JSON:
		return scalarText(arg), ""
	}
	arg.ForEach(func(name, element gjson.Result) bool {
		switch {
		case element.Type == gjson.JSON:
			problem = "the value must be a string, a number, a boolean, or an array or object of these"
		case element.Type == gjson.Null:
		case arg.IsObject():
			object[name.Str] = scalarText(element)
		default:
			list = append(list, scalarText(element))
		}
		return problem == ""
	})
	switch {
	case problem != "" || len(list)+len(object) == 0:
		return nil, problem
	case arg.IsObject():
		return object, ""
	}
	return list, ""
}

// scalarText returns a scalar as written, a string without its quotes.
func scalarText(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.Str
	}
	return value.Raw
}
