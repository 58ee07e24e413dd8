package openapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	uritemplate "github.com/std-uritemplate/std-uritemplate/go/v2"
	"github.com/tidwall/gjson"
)

// checkSent compares a request with the request that an operation must send for its arguments. A path, a query, a cookie and a form must
// equal a library's expansion of RFC 6570, by which OpenAPI defines its styles; JSON and files must arrive unchanged.
func checkSent(op *operation, base string, args []byte, got sent) error {
	given := gjson.ParseBytes(args).Map()
	path, literal, _ := strings.Cut(op.path[:strings.IndexByte(op.path+"#", '#')], "?")
	query, cookies := []string{strings.ReplaceAll(literal, " ", "%20")}, []string(nil)
	for i := range op.parameters {
		p := &op.parameters[i]
		value := given[p.arg]
		switch p.in {
		case "query":
			query = append(query, expectedPairs(p, value))
		case "cookie":
			cookies = append(cookies, strings.ReplaceAll(expectedPairs(p, value), "&", "; "))
		case "header":
			want, _ := url.PathUnescape(expand("", p, value)) // nothing is escaped in headers
			if sent := got.header.Get(p.name); sent != want && (value.Exists() || http.CanonicalHeaderKey(p.name) != "Accept") {
				return fmt.Errorf("the header %s is %q, want %q", p.name, sent, want)
			}
		}
	}
	target := base + expectedPath(op, path, given)
	if text := joinedBy(query, "&"); text != "" {
		target += "?" + text
	}
	if got.method != op.method || got.url != target {
		return fmt.Errorf("the request is %s %s\nwant %s %s", got.method, got.url, op.method, target)
	}
	if sent, want := got.header.Get("Cookie"), joinedBy(cookies, "; "); sent != want {
		return fmt.Errorf("the cookies are %q, want %q", sent, want)
	}
	return checkBody(op.body, args, got)
}

func joinedBy(texts []string, separator string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

var braces = regexp.MustCompile(`\{[^}]*\}`)

func expectedPath(op *operation, path string, given map[string]gjson.Result) string {
	literals := strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E")
	return braces.ReplaceAllStringFunc(literals.Replace(path), func(brace string) string {
		for i := range op.parameters {
			if p := &op.parameters[i]; p.in == "path" && "{"+p.name+"}" == brace {
				operator := map[string]string{"label": ".", "matrix": ";"}[p.style]
				return expand(operator, p, given[p.arg])
			}
		}
		return brace
	})
}

// expectedPairs returns a parameter's pairs in a query. Styles that RFC 6570 lacks are form with another separator, or deepObject.
func expectedPairs(p *parameter, value gjson.Result) string {
	structured := p.mediaType == "" && (value.IsObject() || value.IsArray())
	if p.style == "deepObject" && structured {
		return strings.Join(deepPairs(p, p.name, value), "&")
	}
	text := strings.TrimPrefix(expand("?", p, value), "?")
	if separator := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]; separator != "" && !p.explode {
		text = strings.ReplaceAll(text, ",", separator) // commas within texts are escaped
	}
	return withReserved(p, text, structured)
}

// withReserved undoes the escapes of the reserved characters that a parameter may contain; an item of a list cannot contain separators.
func withReserved(p *parameter, text string, item bool) string {
	allowed := ":/?@!$'()*;"
	if !item {
		allowed += ",="
	}
	for _, c := range allowed {
		if p.allowReserved {
			text = strings.ReplaceAll(text, fmt.Sprintf("%%%02X", c), string(c))
		}
	}
	return text
}

func deepPairs(p *parameter, name string, value gjson.Result) (pairs []string) {
	if !value.IsObject() && !value.IsArray() {
		if value.Type == gjson.Null {
			return nil
		}
		return []string{withReserved(p, escaped(name), true) + "=" + withReserved(p, escaped(textOf(value)), false)}
	}
	i := 0
	value.ForEach(func(key, inner gjson.Result) bool {
		part := key.Str
		if value.IsArray() {
			part = fmt.Sprint(i)
			i++
		}
		pairs = append(pairs, deepPairs(p, name+"["+part+"]", inner)...)
		return true
	})
	return pairs
}

// expand expands a parameter with an operator of RFC 6570; "": none.
func expand(operator string, p *parameter, value gjson.Result) string {
	if !value.Exists() || value.Type == gjson.Null && p.mediaType == "" {
		return ""
	}
	template, v := "{"+operator+"v}", any(textOf(value))
	if p.explode {
		template = "{" + operator + "v*}"
	}
	switch {
	case p.mediaType != "":
		v = value.Raw
	case value.IsArray():
		v = textsOf(value)
	case value.IsObject():
		v = membersOfObject(value)
	}
	text := rfc6570(template, v)
	if p.explode && value.IsObject() && p.mediaType == "" {
		return text // the names are those of the members
	}
	name := escaped(p.name)
	return strings.NewReplacer("?v", "?"+name, "&v", "&"+name, ";v", ";"+name).Replace(text)
}

// rfc6570 expands a template whose variable is v.
func rfc6570(template string, v any) string {
	text, err := uritemplate.Expand(template, uritemplate.Substitutions{"v": v})
	if err != nil {
		panic(err)
	}
	return text
}

func escaped(text string) string { return rfc6570("{v}", text) }

func textOf(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.Str
	}
	return value.Raw
}

// textsOf returns the elements of a list. A null counts as missing, as in an object.
func textsOf(list gjson.Result) (texts []string) {
	for _, element := range list.Array() {
		if element.Type != gjson.Null {
			texts = append(texts, textOf(element))
		}
	}
	return texts
}

func membersOfObject(object gjson.Result) map[string]string {
	members := map[string]string{}
	for name, value := range object.Map() {
		if value.Type != gjson.Null {
			members[name] = textOf(value)
		}
	}
	return members
}

func checkBody(b *body, args []byte, got sent) error {
	var whole gjson.Result
	members := "{}" // the members of the body
	if b != nil {
		whole = gjson.ParseBytes(args).Map()[b.arg]
		members = whole.Raw
		if b.arg == "" {
			members = memberObject(b, args)
		}
	}
	mediaType, parameters, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	switch {
	case b == nil || members == "" || members == "{}" && b.arg == "" && !b.required:
		if mediaType != "" || got.body != "" {
			return fmt.Errorf("a body of %s: %q", mediaType, got.body)
		}
		return nil
	case mediaType == "multipart/form-data":
		return checkParts(b, gjson.Parse(members), multipart.NewReader(strings.NewReader(got.body), parameters["boundary"]))
	case mediaType == "application/x-www-form-urlencoded":
		return checkText(got.body, strings.ReplaceAll(expectedForm(b, gjson.Parse(members)), "%20", "+"))
	case strings.HasSuffix(mediaType, "json"):
		return checkText(got.body, members)
	case !strings.HasPrefix(mediaType, "text/") && !strings.HasSuffix(mediaType, "xml"):
		return checkText(base64.StdEncoding.EncodeToString([]byte(got.body)), whole.Str)
	}
	return checkText(got.body, whole.Str)
}

func checkText(got, want string) error {
	if got != want {
		return fmt.Errorf("the body is  %q\nwant %q", got, want)
	}
	return nil
}

// memberObject returns the arguments that are members of a body, by the members' names.
func memberObject(b *body, args []byte) string {
	var members []string
	gjson.ParseBytes(args).ForEach(func(arg, value gjson.Result) bool {
		if i := slices.IndexFunc(b.members, func(m member) bool { return m.arg == arg.Str }); i >= 0 {
			name, _ := json.Marshal(b.members[i].name)
			members = append(members, string(name)+":"+value.Raw)
		}
		return true
	})
	return "{" + strings.Join(members, ",") + "}"
}

// fieldOf returns how a member of a form is encoded; a member without a description is exploded.
func fieldOf(b *body, name string) parameter {
	how, described := b.fields[name]
	return parameter{name: name, style: how.style, explode: how.explode || !described, mediaType: how.mediaType}
}

func expectedForm(b *body, members gjson.Result) string {
	if members.Type == gjson.String {
		return members.Str
	}
	var pairs []string
	members.ForEach(func(name, value gjson.Result) bool {
		p := fieldOf(b, name.Str)
		if !strings.HasSuffix(p.mediaType, "json") || !value.IsObject() && !value.IsArray() {
			p.mediaType = ""
		}
		pairs = append(pairs, expectedPairs(&p, value))
		return true
	})
	return joinedBy(pairs, "&")
}

// checkParts checks that there is a part for each member, and one for each element of a list that is not sent as JSON.
func checkParts(b *body, members gjson.Result, reader *multipart.Reader) error {
	var want, got []string
	members.ForEach(func(name, member gjson.Result) bool {
		how := b.fields[name.Str]
		values := []gjson.Result{member}
		if member.IsArray() && !strings.HasSuffix(how.mediaType, "json") {
			values = member.Array()
		}
		for _, value := range values {
			switch {
			case value.Type == gjson.Null:
			case how.binary && value.IsObject():
				want = append(want, fmt.Sprintf("%s: %s %s", name.Str, value.Get("name").Str, value.Get("data").Str))
			case how.binary:
				want = append(want, fmt.Sprintf("%s: %s %s", name.Str, name.Str, value.Str))
			case value.IsObject() || value.IsArray() || strings.HasSuffix(how.mediaType, "json"):
				want = append(want, name.Str+": JSON "+value.Raw)
			default:
				want = append(want, name.Str+": "+textOf(value))
			}
		}
		return true
	})
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		text := string(content)
		switch {
		case part.FileName() != "":
			text = part.FileName() + " " + base64.StdEncoding.EncodeToString(content)
		case part.Header.Get("Content-Type") == "application/json":
			text = "JSON " + text
		}
		got = append(got, part.FormName()+": "+text)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the parts are %q\nwant %q", got, want)
	}
	return nil
}
