package steps

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Setting is what a configuration sets for the functions that match a pattern. A nil field is not set.
type Setting struct {
	// Pattern matches a function's canonical name or path, before renaming. * matches any characters, including dots, and ? matches one.
	Pattern string

	Effect      *Effect
	Tier        *Tier
	Hide        *bool   // true: the function is in no registry
	Rename      *string // replaces the source's canonical name
	Heavy       *string
	Description *string
	Timeout     *time.Duration
	CacheTTL    *time.Duration
	Approve     *string
	Undo        *Undo
	Idempotency *Idempotency
	// Answer is replaced as a whole by that of a more specific pattern.
	Answer *Excerpt
	// Fields is the argument that lists members of the result. A function that has no such argument keeps its own.
	Fields *string
	// Gives and Takes replace those of less specific patterns; empty lists take away what these say. nil is not set.
	Gives []Given
	Takes []Taken
	// Preset: the setting gives what no other setting does, whatever its pattern.
	Preset bool
	// Result is one of the function's Results. A function that does not have it keeps its own.
	Result *string
	// IgnoreOutput leaves out the schema of the result. false is not set.
	IgnoreOutput bool
	Defaults     json.RawMessage   // a JSON object; merged with less specific patterns, key by key
	Aliases      map[string]string // merged in the same way
	// CommonAliases apply only to functions that declare the aliased argument. Aliases win over them.
	CommonAliases map[string]string
}

// Settings apply to functions; nil: no settings. Many goroutines may use them.
type Settings struct {
	list []*rankedSetting // the most specific first

	mu      sync.Mutex
	used    map[*rankedSetting]bool
	results map[*rankedSetting]bool // the settings whose Result some function has
	fields  map[*rankedSetting]*fieldsUse
}

type rankedSetting struct {
	Setting
	restriction *Setting // the part that also applies to possible paths; nil: none
	rank        int      // 0: the pattern is a plain name
	literal     int      // bytes of the pattern that are not wildcards
	at          int      // position in the given list
}

// NewSettings compiles settings. If several match a function, each field comes from the most specific pattern that sets it:
// a plain name first, then the pattern with the most literal characters, then the first in the list. It returns all faults,
// bad_request, At "/N" of the list and the field below it.
func NewSettings(list []Setting) (*Settings, []*fault.Error) {
	s := &Settings{used: map[*rankedSetting]bool{}, results: map[*rankedSetting]bool{}, fields: map[*rankedSetting]*fieldsUse{}}
	var faults []*fault.Error
	for i, setting := range list {
		for _, f := range checkSetting(&setting) {
			faults = append(faults, f.Under(fault.Index("", i)))
		}
		ranked := &rankedSetting{Setting: setting, restriction: setting.restrictions(), at: i, literal: len(setting.Pattern)}
		if stars := strings.Count(setting.Pattern, "*") + strings.Count(setting.Pattern, "?"); stars > 0 {
			ranked.rank, ranked.literal = 1, ranked.literal-stars
		}
		s.list = append(s.list, ranked)
	}
	slices.SortStableFunc(s.list, func(a, b *rankedSetting) int {
		return cmp.Or(compareBool(a.Preset, b.Preset), cmp.Compare(a.rank, b.rank), cmp.Compare(b.literal, a.literal), cmp.Compare(a.at, b.at))
	})
	return s, faults
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func checkSetting(s *Setting) (faults []*fault.Error) {
	add := func(at string, f *fault.Error) { faults = append(faults, f.Under(at)) }
	if s.Pattern == "" {
		add("", fault.New(fault.BadRequest, "the name of a function, or a pattern of names, is empty"))
	}
	isPattern := strings.ContainsAny(s.Pattern, "*?")
	if s.Rename != nil {
		switch f := checkName(*s.Rename); {
		case f != nil:
			add("/rename", f)
		case isPattern:
			add("/rename", fault.New(fault.BadRequest,
				"%s may match several functions, and only one can have the name: write the function's whole name", fault.Quote(s.Pattern)))
		}
	}
	if s.Heavy != nil {
		if heavy := []string{"auto", "always", "never"}; !slices.Contains(heavy, *s.Heavy) {
			add("/heavy", unknownWord("value of heavy", *s.Heavy, heavy))
		}
	}
	if s.Answer != nil {
		if f := s.Answer.check(); f != nil {
			add("/answer", f)
		}
	}
	for at, d := range map[string]*time.Duration{"/timeoutMs": s.Timeout, "/cacheTtl": s.CacheTTL} {
		if d != nil && *d < 0 {
			add(at, fault.New(fault.BadRequest, "must not be below zero"))
		}
	}
	if len(s.Defaults) > 0 && !isObject(s.Defaults) {
		add("/defaults", fault.New(fault.BadRequest, "must be an object of arguments"))
	}
	return faults
}

// check returns what is wrong with an excerpt; nil: nothing.
func (e *Excerpt) check() *fault.Error {
	for at, paths := range map[string][]string{"/keep": e.Keep, "/drop": e.Drop} {
		if i := slices.Index(paths, ""); i >= 0 {
			return fault.New(fault.BadRequest, "a path is empty: name a member, or members joined by dots").Under(fault.Index(at, i))
		}
	}
	if e.Top < 0 {
		return fault.New(fault.BadRequest, "must be at least 1").Under("/top")
	}
	if len(e.Keep) == 0 && len(e.Drop) == 0 && e.Top == 0 {
		return fault.New(fault.BadRequest, "nothing is set: give keep, drop or top")
	}
	return nil
}

// restrictions returns the part of the setting that also applies to possible paths; nil: nothing. It lacks what grants something (effect
// read, a tier up to read, hide: false, approve: never, no labels), and what fits only one function (rename, undo, idempotency, result,
// output, answer, fields), because several functions may have the same possible path.
func (s *Setting) restrictions() *Setting {
	r := *s
	r.Rename, r.Undo, r.Idempotency, r.Result, r.IgnoreOutput = nil, nil, nil, nil, false
	r.Answer, r.Fields = nil, nil
	if len(r.Gives) == 0 {
		r.Gives = nil
	}
	if len(r.Takes) == 0 {
		r.Takes = nil
	}
	if r.Approve != nil && *r.Approve == ApproveNever {
		r.Approve = nil
	}
	if r.Effect != nil && *r.Effect == Read {
		r.Effect = nil
	}
	if r.Tier != nil && *r.Tier <= TierRead {
		r.Tier = nil
	}
	if r.Hide != nil && !*r.Hide {
		r.Hide = nil
	}
	if reflect.DeepEqual(r, Setting{Pattern: s.Pattern, Preset: s.Preset}) {
		return nil
	}
	return &r
}

// restrict fills unset fields from a less specific setting. The effect and tier of that setting go to minimum instead, if s sets none and
// they restrict more than those of minimum.
func (s *Setting) restrict(from Setting, minimum *Setting) {
	if e := from.Effect; e != nil && s.Effect == nil && (minimum.Effect == nil || *e == Destroy) {
		minimum.Effect = e
	}
	if t := from.Tier; t != nil && s.Tier == nil && (minimum.Tier == nil || *t > *minimum.Tier) {
		minimum.Tier = t
	}
	from.Effect, from.Tier = nil, nil
	s.fill(&from)
}

// Apply returns the function with the settings applied, and reports whether it is hidden. Of a setting that matches only a possible path
// (Spec.PossiblePaths), only the part that restrictions returns applies: it may raise the effect and the tier or hide the function, and
// grants no rights.
func (s *Settings) Apply(fn Function) (_ Function, hidden bool) {
	if s == nil {
		return fn, false
	}
	var merged, minimum Setting
	for _, setting := range s.list {
		switch {
		case fn.matches(setting.Pattern):
			s.markUsed(setting)
			s.markResult(setting, &fn.Spec)
			if setting.Fields != nil && merged.Fields == nil {
				s.setFields(&fn.Spec, setting)
			}
			merged.fill(&setting.Setting)
		case setting.restriction != nil && fn.matchesPossiblePath(setting.Pattern):
			s.markUsed(setting)
			merged.restrict(*setting.restriction, &minimum)
		}
	}
	declared := fn.Effect
	if merged.Effect != nil {
		fn.Effect, fn.EffectDeclared = *merged.Effect, true
	}
	if minimum.Effect != nil && (*minimum.Effect == Destroy || fn.Effect != Destroy) {
		fn.Effect, fn.EffectDeclared = *minimum.Effect, true
	}
	fn.effectOverridden = fn.Effect != declared
	set(&fn.Tier, merged.Tier)
	if minimum.Tier != nil {
		fn.Tier = max(fn.MinimumTier(), *minimum.Tier)
	}
	set(&fn.Heavy, merged.Heavy)
	set(&fn.Approve, merged.Approve)
	if merged.Undo != nil {
		fn.Undo = merged.Undo
	}
	if merged.Idempotency != nil {
		fn.Idempotency = merged.Idempotency
	}
	if merged.Answer != nil {
		fn.Answer = merged.Answer
	}
	if merged.Gives != nil {
		fn.Gives = merged.Gives
	}
	if merged.Takes != nil {
		fn.Takes = merged.Takes
	}
	fn.setResult(merged.Result, merged.IgnoreOutput)
	set(&fn.Description, merged.Description)
	set(&fn.Timeout, merged.Timeout)
	set(&fn.CacheTTL, merged.CacheTTL)
	if merged.Rename != nil {
		fn.Name, fn.OwnName, fn.Path, fn.PossiblePaths, fn.SessionPath = *merged.Rename, "", "", nil, ""
	}
	if merged.Defaults != nil {
		fn.Defaults = mergeObjects(merged.Defaults, fn.Defaults)
	}
	if aliases := merged.aliasesFor(fn.Input); aliases != nil {
		fn.Aliases = aliases
	}
	return fn, merged.Hide != nil && *merged.Hide
}

// aliasesFor returns the aliases for a function with this input schema.
func (s *Setting) aliasesFor(input json.RawMessage) map[string]string {
	if len(s.CommonAliases) == 0 || !gjson.ValidBytes(input) {
		return s.Aliases
	}
	aliases, names := map[string]string{}, schema.Properties(input)
	for alias, name := range s.CommonAliases {
		if slices.Contains(names, name) {
			aliases[alias] = name
		}
	}
	maps.Copy(aliases, s.Aliases)
	if len(aliases) == 0 {
		return s.Aliases
	}
	return aliases
}

// fill sets unset fields from a less specific setting.
func (s *Setting) fill(from *Setting) {
	fillField(&s.Effect, from.Effect)
	fillField(&s.Tier, from.Tier)
	fillField(&s.Hide, from.Hide)
	fillField(&s.Rename, from.Rename)
	fillField(&s.Heavy, from.Heavy)
	fillField(&s.Description, from.Description)
	fillField(&s.Timeout, from.Timeout)
	fillField(&s.CacheTTL, from.CacheTTL)
	fillField(&s.Approve, from.Approve)
	fillField(&s.Result, from.Result)
	fillField(&s.Answer, from.Answer)
	fillField(&s.Fields, from.Fields)
	s.IgnoreOutput = s.IgnoreOutput || from.IgnoreOutput
	if s.Gives == nil {
		s.Gives = from.Gives
	}
	if s.Takes == nil {
		s.Takes = from.Takes
	}
	if s.Undo == nil {
		s.Undo = from.Undo
	}
	if s.Idempotency == nil {
		s.Idempotency = from.Idempotency
	}
	s.Aliases, s.CommonAliases = mergeAliases(s.Aliases, from.Aliases), mergeAliases(s.CommonAliases, from.CommonAliases)
	if from.Defaults != nil {
		s.Defaults = mergeObjects(s.Defaults, from.Defaults)
	}
}

// originalName returns the name that its source gave to the function that a setting renames to name; "" if no setting does.
func (s *Settings) originalName(name string) string {
	if s == nil {
		return ""
	}
	for _, setting := range s.list {
		if setting.Rename != nil && FoldName(*setting.Rename) == FoldName(name) {
			return setting.Pattern
		}
	}
	return ""
}

// Original returns the name that its source gave to the function that has this name here.
func (s *Settings) Original(name string) string { return cmp.Or(s.originalName(name), name) }

// mergeAliases adds the entries of defaults that aliases lacks.
func mergeAliases(aliases, defaults map[string]string) map[string]string {
	if defaults == nil {
		return aliases
	}
	merged := maps.Clone(defaults)
	maps.Copy(merged, aliases)
	return merged
}

// mergeObjects adds the members of defaults that object lacks; nil is an empty object.
func mergeObjects(object, defaults json.RawMessage) json.RawMessage {
	if object == nil {
		return defaults
	}
	members, merged := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(defaults, &merged) != nil {
		return object
	}
	maps.Copy(merged, members)
	text, err := json.Marshal(merged) // sorted by name
	if err != nil {
		return object
	}
	return text
}

func fillField[T any](field **T, from *T) {
	if *field == nil {
		*field = from
	}
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
