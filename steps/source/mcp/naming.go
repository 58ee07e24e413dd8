package mcp

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/steps"
)

// Values of Options.Names.
const (
	wholeNames     = "whole"           // the whole name is an action of its server
	actionResource = "action_resource" // list_devices, listDevices
	resourceAction = "resource_action" // device_list
)

var nameForms = []string{resourceAction, actionResource, wholeNames}

// verbs are the actions that detectForm looks for.
var verbs = func() map[string]bool {
	set := map[string]bool{}
	for verb := range strings.FieldsSeq(`
		add analyze append apply approve archive assign attach authorize bulk call cancel change check clear click clone close comment commit
		compare configure connect convert copy count crawl create deactivate delete deploy describe destroy detach disable disconnect
		dismiss download drop duplicate edit emulate enable evaluate execute explain export extract fetch fill find fork format generate
		get give handle hide import index insert install invite invoke join kill launch leave link list load lock mark merge modify move
		navigate open parse patch pause ping post preview publish pull push put query read rebase refresh reject release remove rename
		replace reply request reset resize resolve restart restore resume retrieve retry revert rollback rotate run save scale scan
		schedule scrape search select send set share show sort start stop submit subscribe summarize switch sync tag take test toggle
		track transition trigger type uninstall unlock unpublish unsubscribe update upgrade upload upsert validate verify view wait watch
		write`) {
		set[verb] = true
	}
	return set
}()

// words returns the bounds of the words in a tool's name. They are separated by _ - . or a change of case.
func words(name string) (list [][2]int) {
	start := 0
	end := func(at, next int) {
		if at > start {
			list = append(list, [2]int{start, at})
		}
		start = next
	}
	upper := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	lower := func(i int) bool { return i < len(name) && name[i] >= 'a' && name[i] <= 'z' }
	for i := range len(name) {
		switch {
		case strings.IndexByte("_-.", name[i]) >= 0:
			end(i, i+1)
		case i > start && upper(i) && (!upper(i-1) || lower(i+1)):
			end(i, i)
		}
	}
	end(len(name), len(name))
	return list
}

// parsedName is a tool's name split into words.
type parsedName struct {
	name   string
	words  [][2]int
	folded []string // the words in lower case
	prefix int      // 1 if all names share their first word, which is then neither action nor resource
}

func parseNames(names []string) []parsedName {
	list := make([]parsedName, len(names))
	shared := len(names) > 1
	for i, name := range names {
		parsed := parsedName{name: name, words: words(name)}
		for _, w := range parsed.words {
			parsed.folded = append(parsed.folded, strings.ToLower(name[w[0]:w[1]]))
		}
		list[i] = parsed
		shared = shared && len(parsed.folded) > 1 && parsed.folded[0] == list[0].folded[0] && !verbs[parsed.folded[0]]
	}
	for i := range list {
		if shared && len(list[i].words) > 2 {
			list[i].prefix = 1
		}
	}
	return list
}

// maxWords is the maximum number of words in a name that is split.
const maxWords = 12

// span is a range of words, both ends included.
type span struct{ first, last int }

// split returns the words of the action and of the resource if the name has the given form; ok is false if it lacks one of them.
// create_or_update is one action, and an article is not part of a resource.
func (p *parsedName) split(form string) (action, resource span, ok bool) {
	last := len(p.words) - 1
	switch {
	case last < 1 || last >= maxWords || strings.Contains(p.name, "."): // a dot already separates a resource
		return action, resource, false
	case form == resourceAction:
		return span{last, last}, span{0, last - 1}, true
	case form != actionResource:
		return action, resource, false
	}
	action = span{p.prefix, p.prefix}
	for action.last+3 <= last && (p.folded[action.last+1] == "or" || p.folded[action.last+1] == "and") && verbs[p.folded[action.last+2]] {
		action.last += 2
	}
	resource = span{action.last + 1, last}
	if slices.Contains([]string{"a", "an", "the"}, p.folded[resource.first]) && resource.first < last {
		resource.first++
	}
	return action, resource, true
}

// detectForm returns the form of at least 80 % of the names, or whole.
func detectForm(names []string) string {
	best, maxMatches := wholeNames, 0
	for _, form := range []string{actionResource, resourceAction} {
		matches := 0
		for _, parsed := range parseNames(names) {
			if action, _, ok := parsed.split(form); ok && verbs[parsed.folded[action.first]] {
				matches++
			}
		}
		if matches > maxMatches && matches*5 >= len(names)*4 {
			best, maxMatches = form, matches
		}
	}
	return best
}

// text returns words as the name spells them, with a lower-case first letter unless they begin with an acronym.
func (p *parsedName) text(s span) string {
	text := p.name[p.words[s.first][0]:p.words[s.last][1]]
	if len(text) == 1 || !unicode.IsUpper(rune(text[1])) {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// endings pairs each plural ending with its singular.
var endings = [][2]string{{"ies", "y"}, {"es", ""}, {"s", ""}}

// possiblePaths returns all paths that pathsOf could return for the name, whatever the other names are, and also those that it
// would return without leading words that are not verbs. configured is the configured form; "": none. It returns nil for names with
// a single word, more than maxWords, or a dot.
func possiblePaths(name, configured string) (paths []string) {
	whole := parseNames([]string{name})[0]
	if len(whole.words) > maxWords {
		return nil
	}
	for from := range whole.words {
		suffix := parsedName{name: name, words: whole.words[from:], folded: whole.folded[from:]}
		for _, form := range []string{actionResource, resourceAction} {
			action, words, ok := suffix.split(form)
			if !ok || configured != "" && form != configured || configured == "" && !verbs[suffix.folded[action.first]] {
				continue
			}
			resource, end := suffix.text(words), "."+suffix.text(action)
			paths = append(paths, resource+end)
			for _, ending := range endings {
				if strings.HasSuffix(suffix.folded[words.last], ending[0]) {
					paths = append(paths, resource[:len(resource)-len(ending[0])]+ending[1]+end)
				}
			}
		}
		if verbs[suffix.folded[0]] {
			break
		}
	}
	return paths
}

// pathsOf maps each name to its path, resource.action, in the given form. It leaves out names that stay whole. A configured form
// applies to all names, a detected one only to names whose action is a verb. A plural becomes singular if another name has the
// singular. Names with equal paths stay whole.
func pathsOf(names []string, form string, configured bool) map[string]string {
	list := parseNames(names)
	holders := phraseHolders(list)
	paths, users := map[string]string{}, map[string]int{}
	for i := range list {
		parsed := &list[i]
		users[steps.FoldName(parsed.name)]++
		action, words, ok := parsed.split(form)
		if !ok || !configured && !verbs[parsed.folded[action.first]] {
			continue
		}
		resource := parsed.text(words)
		for _, ending := range endings {
			word, plural := strings.CutSuffix(parsed.folded[words.last], ending[0])
			singular := phrase(append(slices.Clone(parsed.folded[words.first:words.last]), word+ending[1]))
			if holder := holders[singular]; plural && holder != 0 && holder != i+1 {
				resource = resource[:len(resource)-len(ending[0])] + ending[1]
				break
			}
		}
		paths[parsed.name] = resource + "." + parsed.text(action)
		if path := steps.FoldName(paths[parsed.name]); path != steps.FoldName(parsed.name) {
			users[path]++
		}
	}
	maps.DeleteFunc(paths, func(_, path string) bool { return users[steps.FoldName(path)] > 1 })
	return paths
}

func phrase(words []string) string { return strings.Join(words, "_") }

// phraseHolders maps each phrase (adjacent words of a name) to the number of the name that contains it, counted from 1; -1: several
// names contain it.
func phraseHolders(list []parsedName) map[string]int {
	holders := map[string]int{}
	for i, parsed := range list {
		for from := range parsed.folded {
			for to := from + 1; to <= len(parsed.folded) && len(parsed.folded) <= maxWords; to++ {
				words := phrase(parsed.folded[from:to])
				if holder, ok := holders[words]; ok && holder != i+1 {
					holders[words] = -1
				} else {
					holders[words] = i + 1
				}
			}
		}
	}
	return holders
}
