package openapi

import (
	"regexp"
	"slices"
	"strings"
)

// route is a path, split into the parts of a name.
type route struct {
	nouns    []noun   // the nouns of its fixed segments in order, without those in area and skipped
	area     string   // leading segments that are left out: the group of an API, a namespace before a collection
	versions string   // version segments, joined with "_"
	params   []string // parameter names after the last fixed segment
	all      []string // the names of all parameters
	method   string   // the custom method after a colon (/orders/{id}:cancel), or a call in parentheses; "" if there is none
	extra    string   // the text after ? or # in the path
	depth    int      // the number of nouns (including a namespace that is dropped later), parameters and custom methods
	skipped  []string // the api and version segments that were left out; they name a path that has no other segments
}

// noun is a fixed segment.
type noun struct {
	word     string // the segment as written, in snake case
	singular string // word in the singular
	plural   bool
	param    bool // a parameter follows
	leading  bool // no parameter precedes it
	dotted   bool // it is part of a segment with dots
}

var (
	versionSegment = regexp.MustCompile(`^[vV]?\d+(\.\d+)*([-_.]?(alpha|beta|rc|preview|p)[-_.]?\d*)*$|^\d{4}-\d{2}(-\d{2})?([-.]preview)?$`)
	apiSegment     = regexp.MustCompile(`^(?i:api|apis|rest|restapi|odata|api[-_.]?v?\d+(\.\d+)*)$`)
	fileExtension  = regexp.MustCompile(`(?i)\.(json|xml|php|aspx?|html?|csv|txt|ya?ml|do)$`)
	bracedText     = regexp.MustCompile(`\{[^{}]*\}`)
)

// parseRoute splits a path. It leaves out version segments everywhere, and api segments only before the first segment that is kept.
// After "apis" it also leaves out the group, as in Kubernetes.
func parseRoute(path string) route {
	var r route
	if at := strings.IndexAny(path, "?#"); at >= 0 {
		path, r.extra = path[:at], snake(bracedText.ReplaceAllString(path[at+1:], ""))
	}
	var versions []string
	segments := strings.Split(strings.Trim(path, "/"), "/")
	seenParam := false
	for i := 0; i < len(segments); i++ {
		segment := segments[i]
		switch {
		case segment == "":
		case strings.Contains(segment, "{"):
			r.addParameters(segment)
			seenParam = true
		case versionSegment.MatchString(segment) && !(len(r.nouns) > 0 && isNumber(segment)): // a number after a noun is no version
			versions = append(versions, snake(segment))
			r.skipped = append(r.skipped, snake(segment))
		case len(r.nouns) == 0 && apiSegment.MatchString(segment):
			r.skipped = append(r.skipped, snake(segment))
			if segment == "apis" && i+1 < len(segments) && !strings.Contains(segments[i+1], "{") && (i+2 == len(segments) ||
				versionSegment.MatchString(segments[i+2])) {
				i++
				r.area = snake(segments[i])
				r.skipped = append(r.skipped, r.area)
			}
		default:
			r.addFixed(segment, !seenParam)
		}
	}
	r.versions = strings.Join(versions, "_")
	if r.depth = len(r.nouns) + len(r.all); r.method != "" {
		r.depth++
	}
	r.dropNamespace()
	return r
}

func isNumber(segment string) bool { return strings.Trim(segment, "0123456789") == "" }

// addParameters adds a segment with one or more parameters: {id}, {base}...{head}, {id}.json, {name}:cancel, items(id={id}).
func (r *route) addParameters(segment string) {
	before, rest, _ := strings.Cut(segment, "{")
	if call, _, ok := strings.Cut(before, "("); ok && call != "" {
		r.addFixed(call, len(r.nouns) == 0 || r.nouns[len(r.nouns)-1].leading && !r.nouns[len(r.nouns)-1].param)
	} else if name := snake(before); len(name) > 1 {
		r.addFixed(name, len(r.nouns) == 0)
	}
	for _, parameter := range bracedText.FindAllString(segment, -1) {
		r.params = append(r.params, snake(strings.Trim(parameter, "{}")))
		r.all = append(r.all, snake(strings.Trim(parameter, "{}")))
	}
	if len(r.nouns) > 0 {
		r.nouns[len(r.nouns)-1].param = true
	}
	after := rest[strings.LastIndexByte(rest, '}')+1:]
	if verb, ok := strings.CutPrefix(after, ":"); ok {
		r.method = snake(verb)
	}
}

// addFixed adds the nouns of a fixed segment: one, or one for each part between dots. leading: no parameter precedes the segment.
func (r *route) addFixed(segment string, leading bool) {
	segment = fileExtension.ReplaceAllString(segment, "")
	segment, verb, custom := strings.Cut(segment, ":")
	call, _, _ := strings.Cut(segment, "(")
	segments := strings.Split(call, ".")
	for _, piece := range segments {
		word := snake(piece)
		if word == "" {
			continue
		}
		single, plural := singular(word)
		r.nouns = append(r.nouns, noun{word: word, singular: single, plural: plural, leading: leading, dotted: len(segments) > 1})
	}
	r.params, r.method = nil, ""
	if custom {
		r.method = snake(verb)
	} else if len(segments) > 1 && snake(segments[0]) != "" && len(r.nouns) > 1 {
		// chat.postMessage: the last part is the action.
		r.method = r.nouns[len(r.nouns)-1].word
		r.nouns = r.nouns[:len(r.nouns)-1]
	}
}

// dropNamespace drops a leading segment that only groups collections: /dcim/devices is the resource device.
func (r *route) dropNamespace() {
	if len(r.nouns) < 2 {
		return
	}
	first, second := r.nouns[0], r.nouns[1]
	if first.param || first.dotted || !second.leading || !second.plural || verbs[firstWord(first.word)] {
		return
	}
	r.area = joinSegments(r.area, first.word)
	r.nouns = slices.Clone(r.nouns[1:])
}

// joinSegments joins the non-empty segments with dots. It changes the slice that is passed.
func joinSegments(segments ...string) string {
	return strings.Join(slices.DeleteFunc(segments, func(segment string) bool { return segment == "" }), ".")
}
