package steps

import (
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

func (s *Settings) markUsed(setting *rankedSetting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[setting] = true
}

// markResult records that a function has the setting's Result.
func (s *Settings) markResult(setting *rankedSetting, spec *Spec) {
	if setting.Result == nil || !slices.Contains(spec.Results, *setting.Result) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[setting] = true
}

// Unused returns a fault for each setting that has matched no function so far, with the nearest of names, or whose Result or Fields
// none of its functions has. At is its position in the list that NewSettings received, and the field below it.
func (s *Settings) Unused(names []string) []*fault.Error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var unused []*fault.Error
	for _, setting := range s.list {
		if s.used[setting] {
			if setting.Result != nil && !s.results[setting] {
				unused = append(unused, fault.New(fault.BadRequest, "no function that %s matches can answer with %s: this has no effect",
					fault.Quote(setting.Pattern), *setting.Result).Under(fault.Index("", setting.at)+"/result"))
			}
			if f := s.fields[setting].fault(setting); f != nil {
				unused = append(unused, f.Under(fault.Index("", setting.at)+"/fields"))
			}
			continue
		}
		f := fault.New(fault.UnknownFunction, "%s matches no function", fault.Quote(setting.Pattern)).Under(fault.Index("", setting.at))
		f.Nearest = nearestPatterns(setting.Pattern, names)
		unused = append(unused, f)
	}
	slices.SortFunc(unused, func(a, b *fault.Error) int { return strings.Compare(a.At, b.At) })
	return unused
}

// nearestPatterns returns what a pattern that matches none of names may mean: names or, if the name of a source stands before a wildcard,
// the same pattern of another source.
func nearestPatterns(pattern string, names []string) []string {
	source, rest, _ := strings.Cut(pattern, ".")
	if strings.ContainsAny(source, "*?") || !strings.ContainsAny(rest, "*?") {
		return fault.Nearest(pattern, names, 3)
	}
	var sources []string
	for _, name := range names {
		if other, _, ok := strings.Cut(name, "."); ok {
			sources = append(sources, other)
		}
	}
	slices.Sort(sources)
	if slices.Contains(sources, source) {
		return fault.Nearest(pattern, names, 3)
	}
	near := fault.Nearest(source, slices.Compact(sources), 3)
	for i := range near {
		near[i] += "." + rest
	}
	return near
}
