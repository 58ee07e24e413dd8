package http

import (
	"encoding/json"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// redact returns the arguments as a recording may show them. Secrets are header values, except those of a safe list, and values whose names
// look like secrets in the URL's query, in query and in body. replace returns the replacement of each secret. The URL's fragment, which is
// never sent, is dropped. Names are compared without regard to case, because the arguments may not be checked yet.
func redact(args []byte, replace func(value []byte) []byte) []byte {
	return (&redaction{replace: replace}).arguments(args)
}

// redaction copies arguments without their secrets.
type redaction struct {
	form    bool                      // the content type says that strings of the body are forms
	replace func(value []byte) []byte // replaces a secret
}

func (r *redaction) arguments(args []byte) []byte {
	r.form = isForm(gjson.ParseBytes(args))
	return rewrite(gjson.ParseBytes(args), func(name string, value gjson.Result) []byte {
		switch strings.ToLower(name) {
		case "url":
			address, _, _ := strings.Cut(value.String(), "#")
			return quote(r.url(address))
		case "headers":
			return rewrite(value, func(name string, value gjson.Result) []byte {
				if egress.SafeHeader(name) {
					return []byte(value.Raw)
				}
				return r.hide(value)
			})
		case "query", "body":
			return r.value(value, 0)
		}
		return []byte(value.Raw)
	})
}

func isForm(args gjson.Result) (form bool) {
	args.ForEach(func(name, headers gjson.Result) bool {
		if strings.EqualFold(name.Str, "headers") && headers.IsObject() {
			headers.ForEach(func(name, value gjson.Result) bool {
				mediaType, _, _ := mime.ParseMediaType(value.Str)
				form = form || mediaType == formType && strings.EqualFold(name.Str, "content-type")
				return true
			})
		}
		return true
	})
	return form
}

// rewrite copies an object; member returns each member's new value. A value that is not an object is hidden entirely.
func rewrite(object gjson.Result, member func(name string, value gjson.Result) []byte) []byte {
	if !object.IsObject() {
		return quote(secret.Redacted)
	}
	out := []byte{'{'}
	object.ForEach(func(name, value gjson.Result) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, name.Raw...), ':')
		out = append(out, member(name.Str, value)...)
		return true
	})
	return append(out, '}')
}

func (r *redaction) hide(value gjson.Result) []byte { return r.replace([]byte(value.Raw)) }

// replaceText returns the replacement of a secret as text, not as JSON.
func (r *redaction) replaceText(text string) string {
	return gjson.ParseBytes(r.replace(quote(text))).String()
}

// user returns the replacement of a URL's user.
func (r *redaction) user(escaped string) string {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		plain = escaped
	}
	if _, password, ok := strings.Cut(plain, ":"); ok {
		r.replaceText(password) // called only to pass the password to replace, because it is also a secret by itself
	}
	return strings.Trim(r.replaceText(plain), "[]") // the brackets of "[redacted]" would be escaped in a URL
}

// maxRedactDepth is the depth below which a value is hidden entirely.
const maxRedactDepth = 100

// value hides the members with secret names at any depth.
func (r *redaction) value(value gjson.Result, depth int) []byte {
	switch {
	case depth > maxRedactDepth:
		return r.hide(value)
	case value.IsObject():
		pair := namesSecret(value)
		return rewrite(value, func(name string, value gjson.Result) []byte {
			if isSecret(name) || pair && slices.Contains(valueMembers, strings.ToLower(name)) {
				return r.hide(value)
			}
			return r.value(value, depth+1)
		})
	case value.IsArray():
		out := []byte{'['}
		value.ForEach(func(_, element gjson.Result) bool {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, r.value(element, depth+1)...)
			return true
		})
		return append(out, ']')
	case value.Type == gjson.String:
		if shown := r.text(value.Str, depth); shown != value.Str {
			return quote(shown)
		}
	}
	return []byte(value.Raw)
}

// nameMembers hold the name and valueMembers the value if an object describes one member, such as {"name":…,"value":…}.
var (
	nameMembers  = []string{"name", "key", "field", "header", "param", "parameter", "variable"}
	valueMembers = []string{"value", "values", "val", "content", "text", "data"}
)

// namesSecret reports whether an object describes a member with a secret name.
func namesSecret(object gjson.Result) (isSecretName bool) {
	object.ForEach(func(name, value gjson.Result) bool {
		isSecretName = isSecretName || value.Type == gjson.String && slices.Contains(nameMembers, strings.ToLower(name.Str)) &&
			isSecret(value.Str)
		return !isSecretName
	})
	return isSecretName
}

// userinfo is the user of a URL within a text.
var userinfo = regexp.MustCompile(`://[^\s/?#"'<>]*@`)

// text hides secrets in a string that is JSON or a form, or in the URLs and assignments that the string contains. A URL or an assignment
// ends at a blank.
func (r *redaction) text(text string, depth int) string {
	switch {
	case depth > maxRedactDepth:
		return r.replaceText(text)
	case strings.ContainsAny(text, "{[") && json.Valid([]byte(text)):
		return string(r.value(gjson.Parse(text), depth+1))
	}
	if strings.Contains(text, "://") {
		text = userinfo.ReplaceAllStringFunc(text, func(user string) string {
			return "://" + url.PathEscape(r.user(strings.TrimSuffix(strings.TrimPrefix(user, "://"), "@"))) + "@"
		})
	}
	switch {
	case !strings.Contains(text, "="):
		return text
	case r.form:
		return r.query(text, depth)
	}
	var shown strings.Builder
	for {
		end := strings.IndexAny(text, " \t\r\n")
		if end < 0 {
			shown.WriteString(r.query(text, depth))
			return shown.String()
		}
		shown.WriteString(r.query(text[:end], depth))
		shown.WriteByte(text[end])
		text = text[end+1:]
	}
}

// url hides the user and the secrets in the query. A text that is not a URL is hidden entirely.
func (r *redaction) url(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return r.replaceText(text)
	}
	query := r.query(u.RawQuery, 0)
	if u.User == nil && query == u.RawQuery {
		return text
	}
	if u.User != nil {
		u.User = url.User(r.user(u.User.String()))
	}
	u.RawQuery = query
	return u.String()
}

// query hides the values of secret names in a query or form and keeps every other byte. A parameter ends at "&", for some servers also at
// ";", and at "?" and "#", because the text may be a whole URL.
func (r *redaction) query(query string, depth int) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		pairs[i] = r.segment(pair, depth)
	}
	return strings.Join(pairs, "&")
}

func (r *redaction) segment(text string, depth int) string {
	var shown strings.Builder
	for {
		name, _, _ := strings.Cut(text, "=")
		end := strings.IndexAny(text, ";?#")
		if end < 0 || secretParameter(name) { // a secret may contain such characters: it extends to the end
			shown.WriteString(r.parameter(text, depth))
			return shown.String()
		}
		shown.WriteString(r.parameter(text[:end], depth))
		shown.WriteByte(text[end])
		text = text[end+1:]
	}
}

func (r *redaction) parameter(pair string, depth int) string {
	name, value, ok := strings.Cut(pair, "=")
	if !ok {
		return pair
	}
	plain, err := url.QueryUnescape(value)
	if secretParameter(name) {
		if err != nil {
			plain = value
		}
		return name + "=" + url.QueryEscape(r.replaceText(plain))
	}
	if err != nil {
		return pair
	}
	if shown := r.text(plain, depth+maxRedactDepth/10); shown != plain { // each level decodes the text once more, so it counts as ten
		return name + "=" + url.QueryEscape(shown)
	}
	return pair
}

// isSecret reports whether a parameter or member is a secret according to its name. A plain "key" is one too, as in Google's
// services.
func isSecret(name string) bool { return secret.Argument(name) || strings.EqualFold(name, "key") }

// secretParameter reports whether a name in a query or form is secret; a name with invalid escapes counts as one. The rest of a URL may
// precede the name.
func secretParameter(escaped string) bool {
	name, err := url.QueryUnescape(escaped[strings.LastIndexAny(escaped, "?#")+1:])
	return err != nil || isSecret(name)
}

func quote(text string) []byte { return httpbody.Marshal(text) }
