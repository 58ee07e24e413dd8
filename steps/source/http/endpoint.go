package http

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Endpoint describes one HTTP call, the function http.NAME. Its arguments are $input in Headers, Query and Body, and the
// variables of URL.
type Endpoint struct {
	Name   string // letters, digits, _ and -, in parts separated by dots; not get or request
	Method string // GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE; "": GET without a Body, else POST

	// URL is a template (RFC 6570): https://api.example.com/v1/{city}{?units}. The scheme and the host are fixed. All expressions
	// except {+x} and {#x} are accepted; with those two a value could change other parts of the URL. Each variable is the argument
	// with its name: a scalar, or an array or an object of scalars.
	URL string

	// Headers are sent as they are, except that a value with $input is a template: `$input.x`, or a text with
	// `${$input.x}`; null omits the header. Values of headers that are not known to be harmless are secrets: no error,
	// result or recording shows them.
	Headers map[string]string

	// Carries are the names of further headers with credentials, which each call takes from Credential or, if that is nil, from its caller's
	// own (steps.CredentialOf). Either has the name of the function. The headers go to the URL's origin only.
	Carries    []string
	Credential *steps.Credential

	Query map[string]json.RawMessage // added to URL's query: JSON with references to $input; null is omitted, an array repeats its name
	Body  json.RawMessage            // JSON with references to $input: a string is sent as is, else JSON, or a form if Headers say so

	Input  json.RawMessage // JSON Schema of the arguments; empty: derived from the variables and references
	Output json.RawMessage // JSON Schema of the result; empty: unknown

	Description string // "": the method and the host
	Effect      string // read, write or destroy; "": GET, HEAD and OPTIONS read, DELETE destroys, the others write
	Idempotent  bool   // safe to repeat, whatever the method
	Result      string // "body": the body alone; "response": {status, headers, body}; "": body, or response for HEAD
	TimeoutMs   int    // the time limit of a call, including retries; 0: the deadline of its context, else Options.Timeout
}

// endpoint is a checked and compiled Endpoint. It does not change.
type endpoint struct {
	spec          steps.Spec
	method        string
	timeout       time.Duration
	idempotent    bool
	wholeResponse bool // the result is the response, not the body alone
	structured    bool // the body must be a JSON object or array, by Output

	url      *urlTemplate
	headers  []headerTemplate
	carries  bool
	own      *steps.Credential // nil: each caller's, or none
	query    *refs.Template    // nil: none
	body     *refs.Template    // nil: none
	scrubber *secret.Scrubber  // removes the configuration's secrets
}

// headerTemplate is one header: a template or a fixed text.
type headerTemplate struct {
	name, text string
	template   *refs.Template // nil: fixed text
}

// Endpoints cannot have the names of the two built-in functions.
var (
	endpointName  = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	reservedNames = []string{"get", "request"}
)

// compileEndpoints checks and compiles all endpoints; compiled leaves out those with faults. urls are the origins that compiled
// calls; the source's rules must allow them.
func compileEndpoints(list []Endpoint) (compiled []*endpoint, urls []string, faults []*fault.Error) {
	names := map[string]bool{}
	for i := range list {
		c := endpointCompiler{Endpoint: &list[i], at: fault.Key("/endpoints", list[i].Name)}
		switch folded := strings.ToLower(c.Name); {
		case !endpointName.MatchString(c.Name):
			c.fault("", "an endpoint's name holds letters, digits, _ and - (dots separate its parts)")
		case slices.Contains(reservedNames, folded):
			c.fault("", "http.%s is a built-in function: give the endpoint another name", folded)
		case names[folded]:
			c.fault("", "another endpoint has this name")
		default:
			names[folded] = true
		}
		e := c.compile()
		if faults = append(faults, c.faults...); len(c.faults) == 0 {
			compiled, urls = append(compiled, e), append(urls, e.url.origin)
		}
	}
	return compiled, urls, faults
}

// endpointCompiler compiles one endpoint and collects its faults.
type endpointCompiler struct {
	*Endpoint
	endpoint
	at      string // the position of the endpoint in the options: /endpoints/NAME
	faults  []*fault.Error
	inputs  inputs
	secrets []string // secrets in the configuration
}

// fault adds a fault of a field. The format must not show a value that may be a secret.
func (c *endpointCompiler) fault(field, format string, args ...any) {
	f := fault.New(fault.BadRequest, format, args...)
	f.At = c.at + field
	c.faults = append(c.faults, f)
}

// unknownWord adds the fault of an unknown word, with the words that are available.
func (c *endpointCompiler) unknownWord(field, word string, available []string, format string, args ...any) {
	c.fault(field, format, args...)
	f := c.faults[len(c.faults)-1]
	f.Available, f.Nearest = available, fault.Nearest(word, available, 3)
}

func (c *endpointCompiler) compile() *endpoint {
	c.compileMethod()
	c.compileURL()
	c.compileHeaders()
	c.compileQuery()
	c.compileBody()
	if c.Result != "" && c.Result != "body" && c.Result != "response" {
		c.unknownWord("/result", c.Result, []string{"body", "response"}, "unknown result %q: use body or response", fault.Short(c.Result))
	}
	c.wholeResponse = c.Result == "response" || c.Result == "" && c.method == http.MethodHead
	if c.timeout = time.Duration(c.TimeoutMs) * time.Millisecond; c.TimeoutMs < 0 {
		c.fault("/timeoutMs", "a time limit cannot be below 0: leave it out for the default")
	}
	c.compileSpec()
	c.scrubber = secret.New(c.secrets)
	return &c.endpoint
}

func (c *endpointCompiler) compileMethod() {
	c.method = c.Method
	switch {
	case c.Method == "" && len(c.Body) == 0:
		c.method = http.MethodGet
	case c.Method == "":
		c.method = http.MethodPost
	case !slices.Contains(methods, c.Method):
		c.unknownWord("/method", c.Method, methods, "the method must be one of these, in capitals: %s", strings.Join(methods, " "))
	}
	if len(c.Body) > 0 && (c.method == http.MethodGet || c.method == http.MethodHead) {
		c.fault("/body", "a %s has no body: use query, or another method", c.method)
	}
}

func (c *endpointCompiler) compileURL() {
	u, problem := parseURLTemplate(c.URL)
	if problem != "" {
		c.fault("/url", "%s", problem)
		return
	}
	c.url = u
	(&redaction{replace: c.addSecret}).query(u.literalQuery(), 0) // called only because addSecret records the secrets
	for _, v := range u.variables {
		c.inputs.add(v.name, v.required, v.schema())
	}
}

func (c *endpointCompiler) compileHeaders() {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		at, value := fault.Key("/headers", name), c.Headers[name]
		header := headerTemplate{name: name, text: value}
		switch problem := headerProblem(name, value); {
		case problem != "":
			c.fault(at, "%s", problem)
			continue
		case seen[strings.ToLower(name)]:
			c.fault(at, "this header is given twice")
			continue
		case strings.Contains(value, "$input"):
			before := len(c.faults)
			header.template = c.template(at, quote(value))
			for i := range c.faults[before:] { // the reference's text may show a secret next to it
				c.faults[before+i] = &fault.Error{Code: c.faults[before+i].Code, At: c.faults[before+i].At,
					Message: "the value of this header is not a template: write $input.x alone, or ${$input.x} within a text"}
			}
		}
		seen[strings.ToLower(name)] = true
		if header.secret() && header.template == nil {
			c.secrets = append(c.secrets, value)
		}
		c.headers = append(c.headers, header)
	}
}

func (c *endpointCompiler) compileQuery() {
	if len(c.Query) == 0 {
		return
	}
	text := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(c.Query)) {
		if !json.Valid(c.Query[name]) {
			c.fault(fault.Key("/query", name), "this is not JSON")
			return
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, quote(name)...), ':'), c.Query[name]...)
	}
	text = append(text, '}')
	if c.query = c.template("/query", text); c.query == nil {
		return
	}
	if _, err := formValues("query", members(c.query.Value())); err != nil {
		f, _ := fault.As(err)
		c.fault(f.At, "%s", f.Message)
	}
	c.addSecrets(text)
}

func (c *endpointCompiler) compileBody() {
	if len(c.Body) == 0 {
		return
	}
	if !json.Valid(c.Body) {
		c.fault("/body", "this is not JSON")
		return
	}
	c.body = c.template("/body", c.Body)
	c.addSecrets(c.Body)
}

// addSecrets records the values in a query or a body whose names look like secrets.
func (c *endpointCompiler) addSecrets(text []byte) {
	(&redaction{replace: c.addSecret}).value(gjson.ParseBytes(text), 0)
}

// addSecret records a secret. A redaction calls it as its replace function.
func (c *endpointCompiler) addSecret(value []byte) []byte {
	c.secrets = append(c.secrets, secret.Texts(value)...)
	return quote(secret.Redacted)
}

// template compiles JSON with references to $input and records the arguments that they name. It returns nil if the text cannot be
// compiled.
func (c *endpointCompiler) template(field string, text []byte) *refs.Template {
	t, faults := refs.CompileTemplate(text, refs.CompileScope{At: c.at + field, Input: func(string) bool { return true }})
	for _, f := range faults {
		if f.Source != "" { // the source text is configuration, and may hold secrets
			f.Source, f.Offset = "", 0
		}
		c.faults = append(c.faults, f)
	}
	if t == nil {
		return nil
	}
	for _, use := range t.Uses() {
		c.inputs.addUse(use)
		if len(use.Path) > 0 && use.Path[0].Kind != refs.Name && use.Path[0].Kind != refs.Quoted {
			c.fault(strings.TrimPrefix(use.At, c.at), "$input is an object: name an argument, as $input.x")
		}
	}
	return t
}

// compileSpec builds the function's spec.
func (c *endpointCompiler) compileSpec() {
	effect := steps.Write
	switch c.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		effect = steps.Read
	case http.MethodDelete:
		effect = steps.Destroy
	}
	if c.Effect != "" {
		var err error
		if effect, err = steps.ParseEffect(c.Effect); err != nil {
			f, _ := fault.As(err)
			c.faults = append(c.faults, f.Under(c.at+"/effect"))
		}
	}
	c.idempotent = c.Idempotent
	c.spec = steps.Spec{
		Name:        "http." + c.Name,
		Description: c.Description,
		Input:       c.compileInput(),
		Output:      c.compileOutput(),
		Effect:      effect, EffectDeclared: true,
		Idempotent: c.Idempotent || c.method == http.MethodPut || c.method == http.MethodDelete,
		Deletes:    c.method == http.MethodDelete,
		Results:    []string{steps.ResultBody, steps.ResultResponse},
		Redact:     redactMembers,
	}
	c.spec.Defaults = schema.Defaults(c.spec.Input)
	if c.carries, c.own = len(c.Carries) > 0, c.Credential; c.carries && c.own == nil {
		c.spec.Needs = c.spec.Name
	}
	if c.wholeResponse {
		slices.Reverse(c.spec.Results)
	}
	if c.spec.Description == "" && c.url != nil {
		c.spec.Description = "Calls " + c.method + " of " + c.url.host + "."
	}
}

func (c *endpointCompiler) compileOutput() json.RawMessage {
	if len(c.Output) > 0 {
		if !json.Valid(c.Output) {
			c.fault("/output", "this is not a JSON Schema")
		}
		types, _ := new(schema.Paths).TypesAt(c.Name, c.Output, nil)
		c.structured = !c.wholeResponse && len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool {
			return t != "object" && t != "array" && t != "null"
		})
		return bytes.Clone(c.Output)
	}
	if c.wholeResponse {
		return json.RawMessage(outputSchema)
	}
	return nil
}

// redactMembers hides the arguments of an endpoint whose names look like secrets.
func redactMembers(args []byte, hide func(value []byte) []byte) []byte {
	return (&redaction{replace: hide}).value(gjson.ParseBytes(args), 0)
}

// members returns the raw members of a JSON object.
func members(object []byte) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	gjson.ParseBytes(object).ForEach(func(name, value gjson.Result) bool {
		all[name.Str] = json.RawMessage(value.Raw)
		return true
	})
	return all
}
