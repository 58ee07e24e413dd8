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

// preparation converts given arguments to declared ones: aliases become the names that they stand for, and defaults are
// added.
type preparation struct {
	declared    map[string]bool
	aliases     map[string]string
	foldedNames map[string]string // declared names by folded name; names with an equal fold are left out
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

// foldedNamesOf returns the declared names by folded name, so that pageSize stands for page_size. A schema that accepts
// keys of the caller's choice has none, as such a key stands for itself.
func foldedNamesOf(schema json.RawMessage, declared []string) map[string]string {
	root := gjson.ParseBytes(schema)
	if others := root.Get("additionalProperties"); others.Exists() && others.Type != gjson.False || root.Get("patternProperties").Exists() {
		return nil
	}
	spellings, twins := map[string]string{}, map[string]bool{}
	for _, name := range declared {
		folded := foldArgument(name)
		if _, taken := spellings[folded]; taken {
			twins[folded] = true
		}
		spellings[folded] = name
	}
	for folded := range twins {
		delete(spellings, folded)
	}
	return spellings
}

// foldArgument removes case and the separators _ and -.
func foldArgument(name string) string {
	return strings.ToLower(argumentSeparators.Replace(name))
}

var argumentSeparators = strings.NewReplacer("_", "", "-", "")

// declaredName returns the declared name that an argument's name stands for; "" if it is declared itself or stands for
// none.
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

// changes reports whether arguments need any preparation.
func (p *preparation) changes(root gjson.Result) bool {
	found, known := false, 0
	root.ForEach(func(key, _ gjson.Result) bool {
		name := key.String()
		found = p.declaredName(name) != ""
		for _, d := range p.defaults {
			if d.name == name {
				known++
			}
		}
		return !found
	})
	return found || known < len(p.defaults)
}

// warnings warns of aliases of undeclared arguments and of defaults that do not match the schema.
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
	given := make([]string, len(p.defaults))
	for i, d := range p.defaults {
		given[i] = fault.Key("", d.name)
	}
	faults, _ := a.faults(context.Background(), a.options.Defaults, nil)
	for _, f := range faults {
		// A missing argument is for the caller to give.
		if slices.ContainsFunc(given, func(at string) bool { return f.At == at || strings.HasPrefix(f.At, at+"/") }) {
			warnings = append(warnings, fault.New(fault.BadRequest, "its default arguments do not fit its schema: %s", f.Message))
		}
	}
	return warnings
}

// apply prepares compact arguments. given maps each declared name to the alias or other spelling that was given for it;
// nil: none.
func (p *preparation) apply(args []byte) (prepared []byte, given map[string]string) {
	if len(p.foldedNames)+len(p.aliases)+len(p.defaults) == 0 || args[0] != '{' {
		return args, nil
	}
	root := gjson.Parse(rawjson.View(args))
	if !p.changes(root) {
		return args, nil
	}
	has := map[string]bool{}
	root.ForEach(func(key, _ gjson.Result) bool {
		has[key.String()] = true
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
		if name == "" || has[name] {
			add(key.Raw + ":" + value.Raw)
			return true
		}
		has[name] = true
		if given == nil {
			given = map[string]string{}
		}
		given[name] = strings.Clone(key.String())
		quoted, _ := json.Marshal(name) // of a string: never fails
		add(string(quoted) + ":" + value.Raw)
		return true
	})
	for _, d := range p.defaults {
		if !has[d.name] {
			add(d.member)
		}
	}
	if len(prepared) == 0 {
		return args, nil
	}
	return append(prepared, '}'), given
}

// withGivenNames replaces declared names by the names that were given, in the positions of faults.
func withGivenNames(faults []*fault.Error, given map[string]string) []*fault.Error {
	if len(given) == 0 {
		return faults
	}
	for i, f := range faults {
		first, rest, deeper := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
		alias, ok := given[tokenUnescape.Replace(first)]
		if !ok || f.At == "" {
			continue
		}
		c := *f
		c.At = fault.Key("", alias)
		if deeper {
			c.At += "/" + rest
		}
		faults[i] = &c
	}
	return faults
}

// withDeclaredNames is the inverse of withGivenNames, for the positions of unknowns.
func withDeclaredNames(unknowns []Unknown, given map[string]string) []Unknown {
	if len(given) == 0 {
		return unknowns
	}
	stands := make(map[string]string, len(given))
	for name, alias := range given {
		stands[fault.Key("", alias)] = fault.Key("", name)
	}
	declared := slices.Clone(unknowns)
	for i, h := range declared {
		first, rest := h.At, ""
		if end := strings.IndexByte(h.At[min(1, len(h.At)):], '/'); end >= 0 {
			first, rest = h.At[:end+1], h.At[end+1:]
		}
		if name, ok := stands[first]; ok {
			declared[i].At = name + rest
		}
	}
	return declared
}
