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

// verbs are the actions by which the form of a server's names is detected.
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
		r := parsedName{name: name, words: words(name)}
		for _, w := range r.words {
			r.folded = append(r.folded, strings.ToLower(name[w[0]:w[1]]))
		}
		list[i] = r
		shared = shared && len(r.folded) > 1 && r.folded[0] == list[0].folded[0] && !verbs[r.folded[0]]
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

// split returns the words of the action and of the resource in a form; false: the name lacks one of them. create_or_update is one
// action, and an article is not part of a resource.
func (r *parsedName) split(form string) (action, resource span, ok bool) {
	last := len(r.words) - 1
	switch {
	case last < 1 || last >= maxWords || strings.Contains(r.name, "."): // a dot already separates a resource
		return action, resource, false
	case form == resourceAction:
		return span{last, last}, span{0, last - 1}, true
	case form != actionResource:
		return action, resource, false
	}
	action = span{r.prefix, r.prefix}
	for action.last+3 <= last && (r.folded[action.last+1] == "or" || r.folded[action.last+1] == "and") && verbs[r.folded[action.last+2]] {
		action.last += 2
	}
	resource = span{action.last + 1, last}
	if slices.Contains([]string{"a", "an", "the"}, r.folded[resource.first]) && resource.first < last {
		resource.first++
	}
	return action, resource, true
}

// detectForm returns the form of at least 80 % of the names, or whole.
func detectForm(names []string) string {
	best, mostMatches := wholeNames, 0
	for _, form := range []string{actionResource, resourceAction} {
		matches := 0
		for _, r := range parseNames(names) {
			if action, _, ok := r.split(form); ok && verbs[r.folded[action.first]] {
				matches++
			}
		}
		if matches > mostMatches && matches*5 >= len(names)*4 {
			best, mostMatches = form, matches
		}
	}
	return best
}

// text returns words as the name spells them, with a lower-case first letter unless they begin with an acronym.
func (r *parsedName) text(s span) string {
	text := r.name[r.words[s.first][0]:r.words[s.last][1]]
	if len(text) == 1 || !unicode.IsUpper(rune(text[1])) {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// endings are plural endings and their singular.
var endings = [][2]string{{"ies", "y"}, {"es", ""}, {"s", ""}}

// possiblePaths returns all paths that pathsOf could give the name in any list, and those without leading words that are not
// verbs. configured is the configured form; "": none. It returns nil for names with a single word, more than maxWords, or a dot.
func possiblePaths(name, configured string) (paths []string) {
	whole := parseNames([]string{name})[0]
	if len(whole.words) > maxWords {
		return nil
	}
	for from := range whole.words {
		r := parsedName{name: name, words: whole.words[from:], folded: whole.folded[from:]}
		for _, form := range []string{actionResource, resourceAction} {
			action, words, ok := r.split(form)
			if !ok || configured != "" && form != configured || configured == "" && !verbs[r.folded[action.first]] {
				continue
			}
			resource, end := r.text(words), "."+r.text(action)
			paths = append(paths, resource+end)
			for _, ending := range endings {
				if strings.HasSuffix(r.folded[words.last], ending[0]) {
					paths = append(paths, resource[:len(resource)-len(ending[0])]+ending[1]+end)
				}
			}
		}
		if verbs[r.folded[0]] {
			break
		}
	}
	return paths
}

// pathsOf splits names in a form: name → resource.action. Names that stay whole are left out. A detected form applies only to
// names whose action is a verb, a configured one to all. A plural is replaced by its singular if another name has that; names
// with equal paths stay whole.
func pathsOf(names []string, form string, configured bool) map[string]string {
	list := parseNames(names)
	runs := runsOf(list)
	paths, holders := map[string]string{}, map[string]int{}
	for i := range list {
		r := &list[i]
		holders[steps.FoldName(r.name)]++
		action, words, ok := r.split(form)
		if !ok || !configured && !verbs[r.folded[action.first]] {
			continue
		}
		resource := r.text(words)
		for _, ending := range endings {
			word, plural := strings.CutSuffix(r.folded[words.last], ending[0])
			if holder := runs[run(append(slices.Clone(r.folded[words.first:words.last]), word+ending[1]))]; plural && holder != 0 && holder != i+1 {
				resource = resource[:len(resource)-len(ending[0])] + ending[1]
				break
			}
		}
		paths[r.name] = resource + "." + r.text(action)
		if path := steps.FoldName(paths[r.name]); path != steps.FoldName(r.name) {
			holders[path]++
		}
	}
	maps.DeleteFunc(paths, func(_, path string) bool { return holders[steps.FoldName(path)] > 1 })
	return paths
}

func run(words []string) string { return strings.Join(words, "_") }

// runsOf returns the runs of words in the names: the number of the name, from 1, or -1 for several names.
func runsOf(list []parsedName) map[string]int {
	runs := map[string]int{}
	for i, r := range list {
		for from := range r.folded {
			for to := from + 1; to <= len(r.folded) && len(r.folded) <= maxWords; to++ {
				words := run(r.folded[from:to])
				if holder, ok := runs[words]; ok && holder != i+1 {
					runs[words] = -1
				} else {
					runs[words] = i + 1
				}
			}
		}
	}
	return runs
}
