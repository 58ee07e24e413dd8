package openapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/steps"
)

// The name of an operation, resource.action, depends only on its own method, path and operationId. If two operations get the same
// name (ignoring case and separators), the earlier one keeps it and the later one gets a longer name with more of the path.
// Operations are ordered by the number of path segments (without those of versions and of the API, see route.depth), then by the bytes
// of the path, then by method, not by their order in the document. So a new operation renames another only if both have the same short
// name and the new one is earlier.

// methods lists the methods of operations, in the order in which they claim names.
var methods = []string{"get", "post", "put", "patch", "delete", "head", "options", "trace"}

// operationName holds the parts of an operation's name.
type operationName struct {
	method, path, id string // method in lower case
	resource, action string
	area             string   // path prefix that the resource leaves out; patterns match it, and it distinguishes names
	versions         string   // the version segments of the path
	params           []string // the names of all parameters of the path
	name             string
}

// longName and shortestName bound names, in bytes. A tool's name has at most 64, including the source's name and a dot; but shortenName
// never shortens below shortestName. hashDigits is the number of hexadecimal digits of the hash in a shortened name.
const longName, shortestName, hashDigits = 64, 24, 7

// nameOperations gives every operation its name, of at most maxLength bytes.
func nameOperations(operations []*operationName, maxLength int) {
	order := slices.Clone(operations)
	routes := make(map[*operationName]*route, len(order))
	for _, o := range order {
		r := parseRoute(o.path)
		routes[o] = &r
		o.area, o.versions, o.params = r.area, r.versions, r.all
		o.resource, o.action = r.resourceAction(o.method, o.id)
	}
	slices.SortStableFunc(order, func(a, b *operationName) int {
		return cmp.Or(cmp.Compare(routes[a].depth, routes[b].depth), strings.Compare(a.path, b.path),
			cmp.Compare(slices.Index(methods, a.method), slices.Index(methods, b.method)))
	})
	taken := make(map[string]*operationName, len(order))
	numbers := map[string]int{}
	for _, o := range order {
		o.claim(routes[o], taken, numbers, maxLength)
	}
}

// claim gives the operation the first candidate that is free. numbers holds the last number that was appended to each name.
func (o *operationName) claim(r *route, taken map[string]*operationName, numbers map[string]int, maxLength int) {
	try := func(resource, action string) bool {
		if resource == "" || action == "" {
			return false
		}
		name := shortenName(resource, action, maxLength)
		folded := steps.FoldName(name)
		if taken[folded] != nil {
			return false
		}
		o.name = name
		taken[folded] = o
		return true
	}
	if try(o.resource, o.action) {
		return
	}
	holder := taken[steps.FoldName(shortenName(o.resource, o.action, maxLength))]
	area, version, actionByParams := "", "", ""
	if o.area != holder.area {
		area = o.area
	}
	if o.versions != holder.versions {
		version = o.versions
	}
	if extraParams := slices.DeleteFunc(slices.Clone(o.params),
		func(p string) bool { return p == "" || slices.Contains(holder.params, p) }); len(extraParams) > 0 {
		actionByParams = o.action + "_by_" + strings.Join(extraParams, "_")
	}
	id := snake(o.id)
	switch {
	case area != "" && try(joinSegments(area, o.resource), o.action):
	case version != "" && try(joinSegments(version, o.resource), o.action):
	case version != "" && area != "" && try(joinSegments(version, area, o.resource), o.action):
	case actionByParams != "" && try(o.resource, actionByParams):
	case try(joinSegments(r.area, r.words()), o.action):
	case r.extra != "" && try(joinSegments(o.resource, r.extra), o.action):
	case id != "" && try(o.resource, id):
	default: // append the next free number, from 2
		key := o.resource + "." + o.action
		for numbers[key] = max(numbers[key], 1) + 1; !try(o.resource, o.action+"_"+strconv.Itoa(numbers[key])); numbers[key]++ {
		}
	}
}

// words returns the fixed segments in snake case, not in the singular, joined with dots.
func (r *route) words() string {
	var words []string
	for _, n := range r.nouns {
		words = append(words, n.word)
	}
	return strings.Join(words, ".")
}

// resourceAction returns the two parts of a name.
func (r *route) resourceAction(method, id string) (resource, action string) {
	if len(r.nouns) == 0 {
		return r.fromID(method, id)
	}
	nouns := r.nouns
	last := nouns[len(nouns)-1]
	if r.method != "" {
		return resourceOf(nouns), actionWord(method, r.method)
	}
	if action = r.trailingAction(method, id, last); action != "" {
		if len(nouns) == 1 {
			return last.singular, action
		}
		return resourceOf(nouns[:len(nouns)-1]), action
	}
	return resourceOf(nouns), r.standardAction(method, id, last)
}

// actionWord returns the action of a custom method. For methods other than GET and POST it includes the method.
func actionWord(method, word string) string {
	if method == "get" || method == "post" {
		return word
	}
	return word + "_" + method
}

// trailingAction returns the last segment if it is an action on the segment before it: /charges/{id}/capture, /customers/search,
// /gists/starred. It returns "" if the last segment is a resource.
func (r *route) trailingAction(method, id string, last noun) string {
	if last.param || len(r.nouns) < 2 {
		return ""
	}
	before := r.nouns[len(r.nouns)-2]
	verb := verbs[firstWord(last.word)]
	if last.plural && (!verb || firstWord(last.word) != firstWord(lastIDSegment(id))) && last.word != "bulk" {
		return "" // check-runs are a collection, unless the operationId also says that they are checked
	}
	switch method {
	case "post":
		if last.word == "bulk" {
			return "bulk_create"
		}
		return last.word
	case "get":
		if readingVerbs[firstWord(last.word)] || before.plural && !before.param {
			return last.word
		}
	case "put", "patch":
		if last.word == "bulk" {
			return map[string]string{"put": "bulk_replace", "patch": "bulk_update"}[method]
		}
		if verb {
			return last.word
		}
	case "delete":
		if last.word == "bulk" {
			return "bulk_delete"
		}
	}
	return ""
}

// standardAction returns the action for a method on one element or on a whole collection.
func (r *route) standardAction(method, id string, last noun) string {
	all := last.plural && !last.param
	switch method {
	case "get":
		if all || !last.param && hasListWord(id) {
			return "list"
		}
		return "get"
	case "post":
		word := firstWord(snake(id))
		if last.param && word != "create" && word != "add" && word != "insert" && word != "upload" {
			return "update"
		}
		return "create"
	case "put", "patch", "delete":
		action := map[string]string{"put": "replace", "patch": "update", "delete": "delete"}[method]
		if all {
			return "bulk_" + action
		}
		return action
	}
	return method
}

// hasListWord reports whether an operationId contains the word list in a position where an action would be.
func hasListWord(id string) bool {
	words := lastIDSegment(id)
	return firstWord(words) == "list" || lastWord(words) == "list" || firstWord(snake(id)) == "list"
}

// lastIDSegment returns the last segment of an operationId: list_forks for repos/list-forks.
func lastIDSegment(id string) string { return snake(id[strings.LastIndexAny(id, "/.")+1:]) }

func resourceOf(nouns []noun) string {
	words := make([]string, len(nouns))
	for i, n := range nouns {
		words[i] = n.singular
	}
	return strings.Join(words, ".")
}

// fromID names an operation whose path has no segment that counts. It uses the operationId: the parts of `drive.files.copy`, or the
// words of DescribeTable. Without one, it uses the segments that were left out.
func (r *route) fromID(method, id string) (resource, action string) {
	action = r.standardAction(method, id, noun{param: len(r.params) > 0})
	if segments := strings.FieldsFunc(id, func(c rune) bool { return c == '.' || c == '/' }); len(segments) > 1 {
		if len(segments) > 2 {
			segments = segments[1:] // without the name of the API
		}
		words := make([]string, 0, len(segments))
		for _, segment := range segments[:len(segments)-1] {
			if word, _ := singular(snake(segment)); word != "" {
				words = append(words, word)
			}
		}
		return cmp.Or(strings.Join(words, "."), "root"), cmp.Or(snake(segments[len(segments)-1]), action)
	}
	words := snake(id)
	verb, rest, several := strings.Cut(words, "_")
	if verb == "batch" && several {
		second, object, isBatch := strings.Cut(rest, "_")
		if isBatch {
			verb, rest = "batch_"+second, object
		}
	}
	switch {
	case words == "":
		if skipped := joinSegments(slices.Clone(r.skipped)...); skipped != "" {
			return joinSegments(skipped, r.extra), action
		}
		return cmp.Or(r.extra, "root"), action
	case !several:
		return "root", words
	}
	resource, _ = singular(rest)
	return resource, verb
}

// shortenName shortens a name that is too long. The end of the resource and the action stay; a hash of the whole name
// replaces the rest.
func shortenName(resource, action string, maxLength int) string {
	maxLength = max(maxLength, shortestName)
	name := resource + "." + action
	if len(name) <= maxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	if maxAction := maxLength / 2; len(action) > maxAction {
		action = strings.TrimRight(action[:maxAction], "_")
	}
	space := maxLength - len(action) - 1 - len(hash)
	segments := strings.Split(resource, ".")
	shortened := segments[len(segments)-1]
	for i := len(segments) - 2; i >= 0 && len(segments[i])+1+len(shortened) <= space; i-- {
		shortened = segments[i] + "." + shortened
	}
	if len(shortened) > space {
		shortened = strings.TrimRight(shortened[:space], "_.")
	}
	return shortened + hash + "." + action
}
