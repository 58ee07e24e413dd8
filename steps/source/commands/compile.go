package commands

import (
	"cmp"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// command is a checked and compiled Command. It does not change.
type command struct {
	source    *Source
	spec      steps.Spec
	program   string // a path, or for a preset the name of a program
	arguments []template
	dir       template
	args      map[string]*argument
	env       []string
	failsFrom int
	errors    *regexp.Regexp
	maxOutput int64
	limits    limits
}

// limits are bounds of one process.
type limits struct {
	memory int64
	cpu    time.Duration
}

// compiler compiles one command and collects its faults. Their At is relative to the command.
type compiler struct {
	Command
	preset *preset // nil: the command is none of a preset
	faults []*fault.Error
	result command
}

func (c *compiler) fault(field, format string, args ...any) {
	f := fault.New(fault.BadRequest, format, args...)
	f.At = field
	c.faults = append(c.faults, f)
}

var commandName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// compile checks and compiles the command. taken are the names of the commands before it. Of a command with faults, the result is not used.
func (c *compiler) compile(s *Source, taken map[string]bool) *command {
	folded := steps.FoldName(c.Name)
	switch {
	case !commandName.MatchString(c.Name):
		c.fault("", "the name of a command holds letters, digits, _ and - (dots separate its parts)")
	case taken[folded]:
		c.fault("", "another command has the name %s", fault.Short(c.Name))
	}
	taken[folded] = true
	c.result.source, c.result.env = s, environ(c.Env)
	c.compileRun()
	c.compileErrors()
	c.compileBounds()
	c.checkEnv()
	c.compileSpec()
	return &c.result
}

// compileRun compiles the program, its arguments and its folder, and what the places in them say of the function's arguments.
func (c *compiler) compileRun() {
	if len(c.Run) == 0 || c.Run[0] == "" {
		c.fault("/run", "the program is missing: write its path and its arguments, or name a preset")
		return
	}
	c.result.program = c.Run[0]
	if c.preset == nil && !isPath(c.Run[0]) {
		remedy := "the whole path of " + fault.Short(c.Run[0])
		if found, err := exec.LookPath(c.Run[0]); err == nil {
			remedy = found
		}
		c.fault("/run/0", "a program is named by its path, so that no other of its name can take its place: write %s", remedy)
	}
	if program, err := filepath.Abs(c.Run[0]); err == nil && c.preset == nil {
		c.result.program = program
	}
	c.result.args = map[string]*argument{}
	afterDashes := false
	for i, text := range c.Run[1:] {
		t := parseTemplate(text)
		c.result.arguments = append(c.result.arguments, t)
		c.use(&t, fault.Index("/run", i+1), afterDashes)
		afterDashes = afterDashes || text == "--"
	}
	c.result.dir = parseTemplate(c.Dir)
	c.use(&c.result.dir, "/dir", true)
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		if c.result.args[name] == nil {
			c.fault(fault.Key("/args", name), "run has no place {%s} for it", fault.Short(name))
		}
	}
	for i, name := range c.Optional {
		if c.Args[name] == nil {
			c.fault(fault.Index("/optional", i), "%q is no argument of the command", fault.Short(name))
		}
	}
}

// use declares the arguments in a template. free reports whether the program reads no options where it stands.
func (c *compiler) use(t *template, field string, free bool) {
	lists := 0
	for _, name := range t.names {
		written, known := c.Args[name]
		schema := gjson.ParseBytes(written)
		if !known {
			c.fault(field, "{%s} stands for an argument that args does not have: declare it there", fault.Short(name))
			f := c.faults[len(c.faults)-1]
			f.Available = slices.Sorted(maps.Keys(c.Args))
			f.Nearest = fault.Nearest(name, f.Available, 1)
			continue
		}
		a := c.result.args[name]
		if a == nil {
			a = &argument{name: name, path: schema.Get("format").Str == "path" || schema.Get("items.format").Str == "path"}
			c.result.args[name] = a
			c.checkSchema(name, written, schema)
		}
		a.guarded = a.guarded || !free && !restricted(schema) && !restricted(schema.Get("items"))
		if schema.Get("type").Str == "array" {
			lists++
		}
	}
	if lists > 1 || lists == 1 && field == "/dir" {
		c.fault(field, "there is room for one list only: give each list an argument of its own")
	}
}

// restricted reports whether a schema says which texts there may be.
func restricted(schema gjson.Result) bool {
	return schema.Get("pattern").Exists() || schema.Get("enum").Exists() || schema.Get("const").Exists()
}

// checkSchema refuses the schemas of arguments that no program can have.
func (c *compiler) checkSchema(name string, written json.RawMessage, schema gjson.Result) {
	at := fault.Key("/args", name)
	if !json.Valid(written) || !schema.IsObject() {
		c.fault(at, `this is not a JSON Schema: write an object, such as {type: string}`)
		return
	}
	for _, kind := range []string{schema.Get("type").Str, schema.Get("items.type").Str} {
		if kind == "object" || kind == "null" {
			c.fault(at, "an argument of a program is a text, a number, true or false, or a list of these, and cannot be of the type %s", kind)
		}
	}
}

// errorLines matches the lines that look like errors.
const errorLines = `(?i)\b(error|fatal|panic|exception|traceback|failed|failure|cannot|denied|undefined|exceeded|no such|not found)\b|^\s*--- FAIL|^FAIL\b`

func (c *compiler) compileErrors() {
	patterns := []string{errorLines}
	if c.Errors != nil {
		patterns = c.Errors
	}
	for i, pattern := range patterns {
		if _, err := regexp.Compile(pattern); err != nil {
			c.fault(fault.Index("/errors", i), "not a regular expression (RE2): %v", err)
			return
		}
	}
	if len(patterns) > 0 {
		c.result.errors = regexp.MustCompile("(?:" + strings.Join(patterns, ")|(?:") + ")")
	}
}

// maxFailsFrom is above every exit status.
const maxFailsFrom = 256

func (c *compiler) compileBounds() {
	r := &c.result
	r.maxOutput = cmp.Or(c.MaxOutputBytes, defaultOutputBytes)
	r.limits = limits{memory: cmp.Or(c.MaxMemoryBytes, defaultMemoryBytes), cpu: cmp.Or(c.MaxCPUTime, defaultCPUTime)}
	for field, wrong := range map[string]bool{"/maxOutputBytes": r.maxOutput < 0, "/maxMemoryBytes": r.limits.memory < 0,
		"/maxCpuTime": r.limits.cpu < 0} {
		if wrong {
			c.fault(field, "a bound is above 0, or 0 for the default")
		}
	}
	if r.failsFrom = max(c.FailsFrom, 1); c.FailsFrom < 0 || c.FailsFrom > maxFailsFrom {
		c.fault("/failsFrom", "must be 1 to %d", maxFailsFrom)
	}
}

func (c *compiler) checkEnv() {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(c.Env[name], 0) >= 0 {
			c.fault(fault.Key("/env", name), "no variable can have this name or value")
		}
	}
}

func (c *compiler) compileSpec() {
	effect := steps.Write
	if c.Effect != "" {
		var err error
		if effect, err = steps.ParseEffect(c.Effect); err != nil {
			f, _ := fault.As(err)
			c.faults = append(c.faults, f.Under("/effect"))
		}
	}
	description := c.Description
	if description == "" && len(c.Run) > 0 {
		description = "Runs " + strings.Join(append([]string{filepath.Base(c.Run[0])}, c.Run[1:]...), " ") + "."
	}
	c.result.spec = steps.Spec{
		Name: "sh." + c.Name, Description: description,
		Input: c.input(), Output: json.RawMessage(outputSchema),
		Effect: effect, EffectDeclared: true,
		Check: c.result.check,
	}
	if p := c.preset; p != nil {
		c.result.spec.Local, c.result.spec.DefaultTimeout, c.result.spec.Defaults = true, p.timeout, json.RawMessage(p.defaults)
	}
}

// input returns the schema of the function's arguments, in the order of their places.
func (c *compiler) input() json.RawMessage {
	var names, required []string
	for _, t := range append(c.result.arguments, c.result.dir) {
		for _, name := range t.names {
			if !slices.Contains(names, name) && c.Args[name] != nil {
				names = append(names, name)
			}
		}
	}
	var w rawjson.Writer
	w.Open('{')
	w.Text("type", "object")
	w.OpenMember("properties", '{')
	for _, name := range names {
		w.Raw(name, c.Args[name])
		if !slices.Contains(c.Optional, name) {
			required = append(required, name)
		}
	}
	w.Close('}')
	if required != nil {
		w.Texts("required", required)
	}
	w.Bool("additionalProperties", false)
	w.Close('}')
	return w.B
}

// check reports values that a program cannot have, before anything runs.
func (c *command) check(args []byte, known func(at string) bool) (found *fault.Error) {
	gjson.ParseBytes(args).ForEach(func(name, value gjson.Result) bool {
		a, at := c.args[name.Str], fault.Key("", name.Str)
		switch {
		case a == nil || !known(at):
		case value.IsArray():
			for i, one := range value.Array() {
				if place := fault.Index(at, i); found == nil && known(place) {
					found = a.problem(one, place)
				}
			}
		default:
			found = a.problem(value, at)
		}
		return found == nil
	})
	return found
}
