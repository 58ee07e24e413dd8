package schema

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// preparation prepares the arguments of a call: it replaces aliases with declared names, and adds defaults.
type preparation struct {
	declared    map[string]bool
	aliases     map[string]string
	foldedNames map[string]string // declared names by folded name; ambiguous folded names are left out
	defaults    []defaultArgument
}

type defaultArgument struct{ name, member string } // member is `"name":value`

func newPreparation(schema []byte, o *ArgumentsOptions, declared []string) *preparation {
	p := &preparation{declared: map[string]bool{}, aliases: map[string]string{}, foldedNames: foldedNamesOf(schema, declared)}
	for _, name := range declared {
		p.declared[name] = true
	}
	for alias, name := range o.Aliases {
		if !slices.Contains(declared, alias) {
			p.aliases[alias] = name
		}
	}
	gjson.ParseBytes(o.Defaults).ForEach(func(key, value gjson.Result) bool {
		p.defaults = append(p.defaults, defaultArgument{key.String(), key.Raw + ":" + value.Raw})
		return true
	})
	return p
}

// foldedNamesOf returns the declared names by folded name, so that pageSize is accepted for page_size. It returns none for a schema that
// accepts arbitrary keys, because pageSize may then be such a key.
func foldedNamesOf(schema json.RawMessage, declared []string) map[string]string {
	root := gjson.ParseBytes(schema)
	if additional := root.Get("additionalProperties"); additional.Exists() && additional.Type != gjson.False ||
		root.Get("patternProperties").Exists() {
		return nil
	}
	names, ambiguous := map[string]string{}, map[string]bool{}
	for _, name := range declared {
		folded := foldArgument(name)
		if _, taken := names[folded]; taken {
			ambiguous[folded] = true
		}
		names[folded] = name
	}
	for folded := range ambiguous {
		delete(names, folded)
	}
	return names
}

// foldArgument removes case and the separators _ and -.
func foldArgument(name string) string {
	return strings.ToLower(argumentSeparators.Replace(name))
}

var argumentSeparators = strings.NewReplacer("_", "", "-", "")

// declaredName returns the declared name for an alias or another spelling; "" if name is declared itself, or unknown.
func (p *preparation) declaredName(name string) string {
	if p.declared[name] {
		return ""
	}
	if declared, ok := p.aliases[name]; ok {
		return declared
	}
	if len(p.foldedNames) == 0 {
		return ""
	}
	return p.foldedNames[foldArgument(name)]
}

// isNeeded reports whether arguments need any preparation.
func (p *preparation) isNeeded(root gjson.Result) bool {
	renamed, given := false, 0
	root.ForEach(func(key, _ gjson.Result) bool {
		name := key.String()
		renamed = p.declaredName(name) != ""
		for _, d := range p.defaults {
			if d.name == name {
				given++
			}
		}
		return !renamed
	})
	return renamed || given < len(p.defaults)
}

// warnings reports aliases of undeclared arguments, and defaults that do not match the schema.
func (p *preparation) warnings(a *Arguments) (warnings []*fault.Error) {
	for alias, name := range p.aliases {
		if !p.declared[name] {
			f := fault.New(fault.BadRequest, "the alias %s stands for %s, which the function does not declare", fault.Quote(alias),
				fault.Quote(name))
			f.Nearest = fault.Nearest(name, a.names(), 1)
			warnings = append(warnings, f)
		}
	}
	if len(p.defaults) == 0 {
		return warnings
	}
	positions := make([]string, len(p.defaults))
	for i, d := range p.defaults {
		positions[i] = fault.Key("", d.name)
	}
	faults, _ := a.faults(context.Background(), a.options.Defaults, nil, false)
	for _, f := range faults {
		// Faults elsewhere do not count, such as missing arguments: the caller may add them.
		if slices.ContainsFunc(positions, func(at string) bool { return f.At == at || strings.HasPrefix(f.At, at+"/") }) {
			warnings = append(warnings, fault.New(fault.BadRequest, "its default arguments do not fit its schema: %s", f.Message))
		}
	}
	return warnings
}

// apply prepares compact arguments. given maps each declared name to the alias or other spelling in args; nil: none.
func (p *preparation) apply(args []byte) (prepared []byte, given map[string]string) {
	if len(p.foldedNames)+len(p.aliases)+len(p.defaults) == 0 || args[0] != '{' {
		return args, nil
	}
	root := gjson.Parse(rawjson.View(args))
	if !p.isNeeded(root) {
		return args, nil
	}
	present := map[string]bool{}
	root.ForEach(func(key, _ gjson.Result) bool {
		present[key.String()] = true
		return true
	})
	prepared = make([]byte, 0, len(args)+64)
	add := func(member string) {
		if len(prepared) > 0 {
			prepared = append(prepared, ',')
		} else {
			prepared = append(prepared, '{')
		}
		prepared = append(prepared, member...)
	}
	root.ForEach(func(key, value gjson.Result) bool {
		name := p.declaredName(key.String())
		if name == "" || present[name] {
			add(key.Raw + ":" + value.Raw)
			return true
		}
		present[name] = true
		if given == nil {
			given = map[string]string{}
		}
		given[name] = strings.Clone(key.String())
		quoted, _ := json.Marshal(name) // of a string: never fails
		add(string(quoted) + ":" + value.Raw)
		return true
	})
	for _, d := range p.defaults {
		if !present[d.name] {
			add(d.member)
		}
	}
	if len(prepared) == 0 {
		return args, nil
	}
	return append(prepared, '}'), given
}

// withGivenNames replaces declared names in the positions of faults with the names that the caller used.
func withGivenNames(faults []*fault.Error, given map[string]string) []*fault.Error {
	if len(given) == 0 {
		return faults
	}
	for i, f := range faults {
		first, below, hasBelow := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
		alias, ok := given[tokenUnescape.Replace(first)]
		if !ok || f.At == "" {
			continue
		}
		renamed := *f
		renamed.At = fault.Key("", alias)
		if hasBelow {
			renamed.At += "/" + below
		}
		faults[i] = &renamed
	}
	return faults
}

// withDeclaredNames is the inverse of withGivenNames, for the positions of unknowns.
func withDeclaredNames(unknowns []Unknown, given map[string]string) []Unknown {
	if len(given) == 0 {
		return unknowns
	}
	declaredAt := make(map[string]string, len(given))
	for name, alias := range given {
		declaredAt[fault.Key("", alias)] = fault.Key("", name)
	}
	declared := slices.Clone(unknowns)
	for i, unknown := range declared {
		first, below := unknown.At, ""
		if end := strings.IndexByte(unknown.At[min(1, len(unknown.At)):], '/'); end >= 0 {
			first, below = unknown.At[:end+1], unknown.At[end+1:]
		}
		if name, ok := declaredAt[first]; ok {
			declared[i].At = name + below
		}
	}
	return declared
}
