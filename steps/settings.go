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

// Setting is what a configuration says of the functions whose names fit a pattern. A nil field says nothing.
type Setting struct {
	// Pattern is a function's canonical name or its path, as its source gives them, in which each * stands for any
	// characters, dots included, and each ? for one.
	Pattern string

	Effect      *Effect
	Tier        *Tier
	Hide        *bool   // true: the function is in no registry
	Rename      *string // the canonical name in the place of the source's
	Heavy       *string
	Description *string
	Timeout     *time.Duration
	CacheTTL    *time.Duration
	Approve     *string
	Undo        *Undo
	Idempotency *Idempotency
	Defaults    json.RawMessage   // a JSON object; merged with those of less exact patterns, key by key
	Aliases     map[string]string // merged likewise
	// CommonAliases are aliases that hold only for functions that declare what they stand for. Aliases win over them.
	CommonAliases map[string]string
}

// Settings apply to functions. nil applies to none. They may be used by many goroutines.
type Settings struct {
	list []*setting // the most exact first

	mu   sync.Mutex
	used map[*setting]bool
}

type setting struct {
	Setting
	restricts *Setting // what of it holds by any reading of a name; nil: nothing
	rank      int      // 0: the pattern is a name
	literal   int      // bytes of the pattern that stand for themselves
	at        int      // position in the list that was given
}

// NewSettings reads the settings. Of several that fit a function each thing is said by the most exact pattern that says
// it: a name before a pattern, then the one with more characters that stand for themselves, then the one that stands
// first in the list. All faults come back at once, bad_request, At "/N" of the list and the field below it.
func NewSettings(list []Setting) (*Settings, []*fault.Error) {
	s := &Settings{used: map[*setting]bool{}}
	var faults []*fault.Error
	for i, given := range list {
		for _, f := range checkSetting(&given) {
			faults = append(faults, f.Under(fault.Index("", i)))
		}
		one := &setting{Setting: given, restricts: given.restricting(), at: i, literal: len(given.Pattern)}
		if stars := strings.Count(given.Pattern, "*") + strings.Count(given.Pattern, "?"); stars > 0 {
			one.rank, one.literal = 1, one.literal-stars
		}
		s.list = append(s.list, one)
	}
	slices.SortStableFunc(s.list, func(a, b *setting) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.literal, a.literal), cmp.Compare(a.at, b.at))
	})
	return s, faults
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
			add("/rename", fault.New(fault.BadRequest, "%s may fit several functions, and only one can have the name: write the function's whole name", fault.Quote(s.Pattern)))
		}
	}
	if s.Heavy != nil {
		if heavy := []string{"auto", "always", "never"}; !slices.Contains(heavy, *s.Heavy) {
			add("/heavy", unknownWord("value of heavy", *s.Heavy, heavy))
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

// restricting is the setting without what makes more allowed or tells functions apart: a name's readings may be those of
// several functions. It returns nil if nothing is left.
func (s *Setting) restricting() *Setting {
	r := *s
	r.Rename, r.Undo, r.Idempotency = nil, nil, nil
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
	if reflect.DeepEqual(r, Setting{Pattern: s.Pattern}) {
		return nil
	}
	return &r
}

// restrict takes from a less exact setting what is not said yet. Its effect and tier raise those of least.
func (s *Setting) restrict(from Setting, least *Setting) {
	if e := from.Effect; e != nil && s.Effect == nil && (least.Effect == nil || *e == Destroy) {
		least.Effect = e
	}
	if t := from.Tier; t != nil && s.Tier == nil && (least.Tier == nil || *t > *least.Tier) {
		least.Tier = t
	}
	from.Effect, from.Tier = nil, nil
	s.fill(&from)
}

// Apply gives the function as the settings have it, and whether it is hidden. A setting that fits a reading of the name only
// (Spec.Readings) restricts: it raises the effect and the tier, hides, and says what grants nothing.
func (s *Settings) Apply(fn Function) (_ Function, hidden bool) {
	if s == nil {
		return fn, false
	}
	var c, least Setting
	for _, one := range s.list {
		switch {
		case fn.matches(one.Pattern):
			s.mark(one)
			c.fill(&one.Setting)
		case one.restricts != nil && fn.matchesReading(one.Pattern):
			s.mark(one)
			c.restrict(*one.restricts, &least)
		}
	}
	declared := fn.Effect
	if c.Effect != nil {
		fn.Effect, fn.EffectDeclared = *c.Effect, true
	}
	if least.Effect != nil && (*least.Effect == Destroy || fn.Effect != Destroy) {
		fn.Effect, fn.EffectDeclared = *least.Effect, true
	}
	fn.reclassified = fn.Effect != declared
	set(&fn.Tier, c.Tier)
	if least.Tier != nil {
		fn.Tier = max(fn.MinimumTier(), *least.Tier)
	}
	set(&fn.Heavy, c.Heavy)
	set(&fn.Approve, c.Approve)
	if c.Undo != nil {
		fn.Undo = c.Undo
	}
	if c.Idempotency != nil {
		fn.Idempotency = c.Idempotency
	}
	set(&fn.Description, c.Description)
	set(&fn.Timeout, c.Timeout)
	set(&fn.CacheTTL, c.CacheTTL)
	if c.Rename != nil {
		fn.Name, fn.Path, fn.Readings, fn.SessionPath = *c.Rename, "", nil, ""
	}
	if c.Defaults != nil {
		fn.Defaults = c.Defaults
	}
	if aliases := c.aliasesFor(fn.Input); aliases != nil {
		fn.Aliases = aliases
	}
	return fn, c.Hide != nil && *c.Hide
}

// aliasesFor are the aliases of a function with this input schema.
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

// fill takes from a less exact setting what is not said yet.
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

// renamed is the name that a source gives the function that a setting gives this name; "" where none does.
func (s *Settings) renamed(name string) string {
	if s == nil {
		return ""
	}
	for _, one := range s.list {
		if one.Rename != nil && FoldName(*one.Rename) == FoldName(name) {
			return one.Pattern
		}
	}
	return ""
}

// Original is the name that its source gives the function that has this name here.
func (s *Settings) Original(name string) string { return cmp.Or(s.renamed(name), name) }

// mergeAliases adds to aliases those of more that they have not.
func mergeAliases(aliases, more map[string]string) map[string]string {
	if more == nil {
		return aliases
	}
	merged := maps.Clone(more)
	maps.Copy(merged, aliases)
	return merged
}

// mergeObjects adds to an object those members of another that it has not; nil is an empty object.
func mergeObjects(object, more json.RawMessage) json.RawMessage {
	if object == nil {
		return more
	}
	members, further := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(more, &further) != nil {
		return object
	}
	maps.Copy(further, members)
	merged, err := json.Marshal(further) // sorted by name
	if err != nil {
		return object
	}
	return merged
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

func (s *Settings) mark(one *setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[one] = true
}

// Unused tells of the settings that have applied to no function so far, by their position in the list that was given,
// with the nearest of names.
func (s *Settings) Unused(names []string) []*fault.Error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var unused []*fault.Error
	for _, one := range s.list {
		if s.used[one] {
			continue
		}
		f := fault.New(fault.UnknownFunction, "%s fits no function", fault.Quote(one.Pattern)).Under(fault.Index("", one.at))
		f.Nearest = fault.Nearest(one.Pattern, names, 3)
		unused = append(unused, f)
	}
	slices.SortFunc(unused, func(a, b *fault.Error) int { return strings.Compare(a.At, b.At) })
	return unused
}
