package config

import (
	"errors"
	"maps"
	"net/url"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// foreignKeys are keys of other programs by struct, with the consequence of ignoring them; "": none.
var foreignKeys = map[reflect.Type]map[string]string{
	reflect.TypeFor[Config](): {"$schema": ""}, // editors use it to find the schema
	reflect.TypeFor[MCPServer](): {
		"autoApprove": "", "alwaysAllow": "", "alwaysLoad": "", "trust": "", "name": "", "description": "", "version": "",
		"gallery": "", "icon": "", "dev": "", "watchPaths": "", "metadata": "", "_comment": "", "$schema": "",
		"envFile":          "set its variables in the environment, or write them under env",
		"sandbox":          "the server runs without it",
		"sandboxEnabled":   "the server runs without a sandbox",
		"auth":             "write clientId, clientSecret and scopes under oauth",
		"authProviderType": "if the server asks for a login, run onecall auth login with its name",
		"request_timeout":  "write timeout, in milliseconds",
		"requestTimeout":   "write timeout, in milliseconds",
		"sse_read_timeout": "write timeout, in milliseconds",
		"connect_timeout":  "write startTimeoutMs",
		"connectTimeout":   "write startTimeoutMs",
		"headersHelper":    "no command is run for headers: write ${VAR} under headers",
	},
	reflect.TypeFor[OAuth](): {
		"enabled": "", "xaa": "",
		"authServerMetadataUrl": "write the issuer under authServer",
		"redirectUri":           "write its port under callbackPort",
		"authorizationUrl":      "write the issuer under authServer",
		"tokenUrl":              "write the issuer under authServer",
		"registrationUrl":       "write the issuer under authServer",
		"audiences":             "tokens are asked for the server's URL",
		"tokenParamName":        "tokens are sent in the Authorization header",
	},
}

// ForeignKeys returns the keys of other programs in a struct of the configuration, by its name. They are known but ignored.
func ForeignKeys(structName string) []string {
	for t, keys := range foreignKeys {
		if t.Name() == structName {
			return slices.Sorted(maps.Keys(keys))
		}
	}
	return nil
}

// ServerKey returns onecall's key for a key of an entry of mcpServers in any client's spelling. If onecall has no such key, key is "", and
// lost says what is lost because the key is ignored; "": nothing that matters.
func ServerKey(written string) (key, lost string) {
	t := reflect.TypeFor[MCPServer]()
	if i, known := tables[t].byKey[written]; known {
		return tables[t].fields[i].key, ""
	}
	if consequence, foreign := foreignKeys[t][written]; foreign {
		return "", consequence
	}
	return "", "onecall does not know it"
}

var validate = validator.New()

// check checks what tags cannot express.
func (d *decoder) check(c *Config) {
	d.checkSurface(c)
	d.checkAccess(&c.Access)
	d.checkSpaces(c)
	d.checkFlows(c)
	d.checkSources(c)
	d.checkHookPatterns("/hook/allow", c.Hook.Allow)
	d.checkHookPatterns("/hook/ask", c.Hook.Ask)
	d.checkHookPatterns("/hook/deny", c.Hook.Deny)
	if c.Results.TTL != nil && c.Results.MaxTTL != nil && *c.Results.MaxTTL < *c.Results.TTL {
		d.faultAt("/results/maxTtl", fault.BadRequest, "must be at least ttl, which is %v", *c.Results.TTL)
	}
}

// faultAt adds a fault at the position of a decoded value.
func (d *decoder) faultAt(pointer string, code fault.Code, format string, args ...any) {
	d.fault(d.positions[pointer], code, pointer, format, args...)
}

// checkRule validates a value by the tag validate of its field.
func (d *decoder) checkRule(at string, value any, rule string) {
	var invalid validator.ValidationErrors
	if rule == "" || !errors.As(validate.Var(value, rule), &invalid) {
		return
	}
	e := invalid[0]
	tag, _, _ := strings.Cut(e.Tag(), "=")
	switch tag {
	case "min":
		if e.Kind() == reflect.String {
			d.faultAt(at, fault.BadRequest, "must not be empty")
			return
		}
		d.faultAt(at, fault.BadRequest, "must be at least %s", e.Param())
	case "max":
		d.faultAt(at, fault.BadRequest, "must be at most %s", e.Param())
	case "oneof":
		d.unknownWord(at, reflect.Indirect(reflect.ValueOf(e.Value())).String(), strings.Fields(e.Param()))
	default: // the one rule of another form, eq=0|min=150 of budget.maxTotalTokens
		d.faultAt(at, fault.BudgetTooSmall, "must be at least 150, or 0 for no budget")
	}
}

func (d *decoder) unknownWord(at, written string, words []string) {
	f := fault.New(fault.BadRequest, "unknown value %q: use %s", fault.Clip(written, 60), strings.Join(words, " or "))
	f.Available, f.Nearest = words, fault.Nearest(written, words, 1)
	d.add(d.positions[at], at, f)
}

// Embedded are the names of onecall's own sources: embedded functions, commands and saved chains.
var Embedded = []string{"fs", "http", "expr", "text", "sh", "result", "state", steps.ChainSource}

// checkSources checks the entries of the sources and the uniqueness of their names.
func (d *decoder) checkSources(c *Config) {
	taken := map[string]string{} // the pointer of a source by its folded name; "": an embedded source
	for _, name := range Embedded {
		taken[steps.FoldName(name)] = ""
	}
	for i := range c.MCPServers {
		at := fault.Key("/mcpServers", c.MCPServers[i].Name)
		d.checkName(at, c.MCPServers[i].Source(), taken)
		d.checkServer(at, &c.MCPServers[i].Config)
	}
	for i := range c.OpenAPI {
		at := fault.Key("/openapi", c.OpenAPI[i].Name)
		d.checkName(at, c.OpenAPI[i].Source(), taken)
		d.checkDocument(at, &c.OpenAPI[i].Config)
	}
	for i := range c.HTTP.Endpoints {
		at, one := fault.Key("/http/endpoints", c.HTTP.Endpoints[i].Name), &c.HTTP.Endpoints[i].Config
		d.requireKeys(at, one)
		d.checkOwn(at+"/auth", one.Auth, one.Headers)
		d.checkAuthServer(at+"/auth", one.Auth)
	}
	for i := range c.Commands {
		one, at := &c.Commands[i].Config, fault.Key("/commands", c.Commands[i].Name)
		switch {
		case one.Preset == nil && len(one.Run) == 0 && !d.hasFault(at) && !d.hasFault(at+"/run"):
			d.faultAt(at, fault.BadRequest, "needs run (the path of a program and its arguments), or the name of a preset")
		case one.Preset != nil && one.Run != nil:
			d.faultAt(at+"/run", fault.BadRequest, "preset and run exclude each other: keep one of the two")
		}
	}
	for _, f := range c.Functions {
		if f.Config.Defaults != nil && f.Config.Defaults[0] != '{' {
			d.faultAt(fault.Key("/functions", f.Name)+"/defaults", fault.BadRequest, "must be an object of arguments")
		}
	}
}

// checkName checks the name of a source, and adds it to taken. at is the pointer of its entry.
func (d *decoder) checkName(at, source string, taken map[string]string) {
	folded := steps.FoldName(source)
	other, clash := taken[folded]
	switch {
	case folded == "":
		d.faultAt(at, fault.BadRequest, "a name needs letters or digits, for the names of its functions")
	case clash && other == "":
		d.faultAt(at, fault.BadRequest, "%s is the name of embedded functions: choose another", source)
	case clash:
		d.faultAt(at, fault.BadRequest, "its functions would be named %s.…, as those of %s: rename one of the two", source, other)
	}
	taken[folded] = at
}

// transports maps names of transports to stdio, http or sse.
var transports = map[string]string{
	"stdio": "stdio", "local": "stdio",
	"http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "remote": "http",
	"sse": "sse",
}

// Transport returns the transport of a name: stdio, http or sse; "": unknown.
func Transport(word string) string { return transports[word] }

// checkServer checks an entry of mcpServers. It sets Disabled if the server is off in either way and, unless command or url is wrong,
// Type to stdio, http or sse.
func (d *decoder) checkServer(at string, s *MCPServer) {
	if s.Disabled != nil && s.Enabled != nil && *s.Disabled == *s.Enabled {
		d.faultAt(at+"/enabled", fault.BadRequest, "enabled and disabled contradict each other: keep one of the two")
	}
	if s.Off() {
		off := true
		s.Disabled = &off
	}
	switch {
	case s.Command == nil && s.URL == nil:
		d.faultAt(at, fault.BadRequest, "needs a command (a server over stdio) or a url (a server behind HTTP)")
		return
	case s.Command != nil && s.URL != nil:
		d.faultAt(at+"/url", fault.BadRequest, "command and url exclude each other: keep one of the two")
		return
	}
	if program, more, _ := strings.Cut(strings.TrimSpace(Or(s.Command, "")), " "); more != "" && !s.Off() &&
		!strings.ContainsAny(program, `/\`) {
		if _, err := exec.LookPath(*s.Command); err != nil {
			d.warnAt(at+"/command", "the whole text is taken as the name of a program: write %s alone, and what follows it under args",
				fault.Clip(program, 60))
		}
	}
	kind, subject := "stdio", "a command"
	if s.URL != nil {
		kind, subject = "http", "a url"
	}
	if s.Type != nil {
		transport := Transport(*s.Type)
		switch {
		case transport == "":
			d.unknownWord(at+"/type", *s.Type, []string{"stdio", "http", "sse"})
		case (transport == "stdio") != (kind == "stdio"):
			d.faultAt(at+"/type", fault.BadRequest, "%s does not go with %s", *s.Type, subject)
		default:
			kind = transport
		}
	}
	s.Type = &kind
	d.dropUnused(at, s, subject)
}

// dropUnused drops settings that mean nothing for a server of this kind. It adds a warning for each, or a fault for oauth, which is
// onecall's own.
func (d *decoder) dropUnused(at string, s *MCPServer, subject string) {
	drop := func(key string) {
		d.warn(d.positions[at+"/"+key], at+"/"+key, "%s is not used: the server has %s", key, subject)
	}
	if s.URL != nil {
		if len(s.Args) > 0 {
			drop("args")
		}
		if len(s.Env) > 0 {
			drop("env")
		}
		if s.Cwd != nil {
			drop("cwd")
		}
		s.Args, s.Env, s.Cwd = nil, nil, nil
		if s.OAuth != nil && *s.Type == "sse" {
			d.faultAt(at+"/oauth", fault.BadRequest, "a login needs Streamable HTTP: leave out oauth, or type: sse")
		}
		switch {
		case s.Auth == nil:
		case s.OAuth != nil:
			d.faultAt(at+"/oauth", fault.BadRequest, "oauth is for a login, and auth says that calls carry other credentials: keep one of the two")
		case *s.Type == "sse" && Or(s.Auth.Caller, "") != "headers":
			d.faultAt(at+"/auth", fault.BadRequest, "tokens need Streamable HTTP: leave out auth, or type: sse")
		}
		d.checkOwn(at+"/auth", s.Auth, s.Headers)
		return
	}
	if s.Auth != nil {
		d.faultAt(at+"/auth", fault.BadRequest, "auth needs a url: a server over stdio serves all callers with the credentials under env")
	}
	if len(s.Headers) > 0 {
		drop("headers")
	}
	s.Headers = nil
	if s.OAuth != nil {
		d.faultAt(at+"/oauth", fault.BadRequest, "oauth needs a url: a server over stdio is given its credentials under env")
	}
}

func (d *decoder) checkDocument(at string, o *OpenAPI) {
	if o.Spec == nil {
		d.faultAt(at, fault.BadRequest, "spec is missing: the URL or the file of the OpenAPI document")
	}
	d.checkOwn(at+"/auth", o.Own, o.Headers)
	d.checkAuthServer(at+"/auth", o.Own)
	for i := range o.Auth {
		d.checkAuth(fault.Key(at+"/auth", o.Auth[i].Name), &o.Auth[i].Config)
	}
}

var (
	// redisURL matches the address of a Redis or Valkey server.
	redisURL = regexp.MustCompile(`(?i)^(rediss?|valkeys?|unix):`)
	// databaseURL matches the URL of a journal; package sqljournal checks the rest.
	databaseURL = regexp.MustCompile(`^postgres(ql)?://`)
	// storeScheme matches the beginning of a URL or of something similar.
	storeScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]{0,15}):/`)
)

// checkResultStore checks where results are. Addresses of servers that earlier versions knew are told what to write.
func (d *decoder) checkResultStore(store *string) {
	const at, instead = "/results/store", "write postgres, which keeps results in the journal's database " +
		"(journal: {store: postgres://…, key: ${JOURNAL_KEY}}), or disk or memory for a single server"
	switch {
	case store != nil && redisURL.MatchString(*store) && !d.hasFault(at):
		d.faultAt(at, fault.BadRequest, "results are not kept in Redis or Valkey: "+instead)
	case store != nil && databaseURL.MatchString(*store) && !d.hasFault(at):
		d.faultAt(at, fault.BadRequest, "results have no database of their own: "+instead)
	default:
		d.checkStore(at, store, []string{"memory", "disk", "postgres"})
	}
}

// checkStore checks an expanded store, which is one of words. address is written for what else it may be. Faults show only the scheme of a
// store, because a password may be anywhere in it.
func (d *decoder) checkStore(at string, store *string, words []string, address ...string) {
	if store == nil || slices.Contains(words, *store) || d.hasFault(at) {
		return
	}
	what := "unknown store"
	if scheme := storeScheme.FindStringSubmatch(*store); scheme != nil {
		what = "unknown store " + scheme[0] + "…"
	} else if strings.TrimSpace(*store) != *store {
		what = "unknown store, with a blank before or after it"
	}
	accepted := slices.Concat(words, address)
	f := fault.New(fault.BadRequest, "%s: use %s", what, strings.Join(accepted, " or "))
	f.Available, f.Nearest = accepted, fault.Nearest(*store, words, 1)
	d.add(d.positions[at], at, f)
}

// minJournalKey is the minimum length of a key in bytes, as in package journal.
const minJournalKey = 32

// checkJournal checks the settings of the journal and of the functions that need it.
func (d *decoder) checkJournal(c *File) {
	j := &c.Journal
	postgres := j.Store != nil && databaseURL.MatchString(*j.Store)
	switch {
	case postgres && j.Key == nil && !d.hasFault("/journal/key"):
		d.faultAt("/journal/store", fault.BadRequest,
			"a journal in PostgreSQL needs a key of at least 32 bytes, the same for all replicas: key: ${JOURNAL_KEY}")
	case j.Key != nil && !postgres && !d.hasFault("/journal/store"):
		d.faultAt("/journal/key", fault.BadRequest, "only a journal in PostgreSQL takes a key: the others make one of their own")
	case j.Key != nil && len(*j.Key) < minJournalKey && !d.hasFault("/journal/key"):
		d.faultAt("/journal/key", fault.BadRequest, "a key has at least %d bytes: openssl rand -base64 32 makes one", minJournalKey)
	}
	off := Or(j.Store, "") == "off"
	if off && Or(c.Approve, "never") != "never" {
		d.faultAt("/approve", fault.BadRequest, "approval needs a journal: leave out approve, or journal: {store: off}")
	}
	for i := range c.Functions {
		f, at := &c.Functions[i].Config, fault.Key("/functions", c.Functions[i].Name)
		if off && Or(f.Approve, "never") != "never" {
			d.faultAt(at+"/approve", fault.BadRequest, "approval needs a journal: leave out approve, or journal: {store: off}")
		}
		if k := f.IdempotencyKey; k != nil && (k.Header == nil) == (k.Arg == nil) {
			d.faultAt(at+"/idempotencyKey", fault.BadRequest, "needs either header or arg")
		}
	}
}

// checkSharedResults checks that results that are kept in the journal's database have one.
func (d *decoder) checkSharedResults(c *Config) {
	shared := Or(c.Results.Store, "") == "postgres" && !databaseURL.MatchString(Or(c.Journal.Store, ""))
	if shared && !d.hasFault("/results/store") && !d.hasFault("/journal/store") {
		d.faultAt("/results/store", fault.BadRequest, "results are kept in the journal's database, and the journal is not in PostgreSQL: "+
			"set journal: {store: postgres://…, key: ${JOURNAL_KEY}}, or results: {store: disk}")
	}
}

// hasFaultBelow reports whether a value, or one within it, has a fault.
func (d *decoder) hasFaultBelow(at string) bool {
	return slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at || strings.HasPrefix(f.At, at+"/") })
}

func (d *decoder) hasFault(at string) bool {
	return slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at })
}

// checkURL checks an expanded URL. Faults do not show the URL, because it may contain a secret.
func (d *decoder) checkURL(at string, text *string) {
	if text == nil || slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at }) {
		return
	}
	u, err := url.Parse(*text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		d.faultAt(at, fault.BadRequest, "must be a URL that begins with http:// or https:// and a host")
	}
}

// checkSurface checks the settings of tools that no other package checks.
func (d *decoder) checkSurface(c *Config) {
	for i := range c.Groups {
		group, at := &c.Groups[i], fault.Key("/groups", c.Groups[i].Name)
		if len(group.Config.Resources) == 0 {
			d.faultAt(at, fault.BadRequest, "needs resources: the names of the resources in the group")
		}
	}
	for alias, name := range c.Aliases {
		if at := fault.Key("/aliases", alias); alias == "" || name == "" || alias == name {
			d.faultAt(at, fault.BadRequest, "needs two names: the one that is accepted, and the one that functions declare")
		}
	}
}
