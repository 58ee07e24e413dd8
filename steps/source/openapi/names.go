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

// The name of an operation, resource.action, depends only on its own method, path and operationId. If two operations get
// the same name (ignoring case and separators), the later one gets a longer name with more of the path; the earlier keeps
// its name. Which one is earlier does not depend on the order of the document: first the one with fewer path segments that
// count, then by the bytes of the path, then by method. So a new operation renames another only if both have the same short
// name and the new one is earlier.

// methods lists the methods of operations, in the order in which they claim names.
var methods = []string{"get", "post", "put", "patch", "delete", "head", "options", "trace"}

// operationName holds the parts of an operation's name.
type operationName struct {
	method, path, id string // method in lower case
	resource, action string
	area             string   // prefix that the resource leaves out, for patterns and to tell names apart
	versions         string   // of the path
	params           []string // of the whole path
	name             string
}

// longName and shortestName bound names, in bytes. A tool's name has at most 64, including the source's name and a dot.
const longName, shortestName, hashDigits = 64, 24, 7

// nameOperations gives every operation its name. room is the maximum length of a name.
func nameOperations(operations []*operationName, room int) {
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
		o.claim(routes[o], taken, numbers, room)
	}
}

// claim takes the first candidate that is free. numbers are the last numbers that were appended to a name.
func (o *operationName) claim(r *route, taken map[string]*operationName, numbers map[string]int, room int) {
	try := func(resource, action string) bool {
		if resource == "" || action == "" {
			return false
		}
		name := shortenName(resource, action, room)
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
	holder := taken[steps.FoldName(shortenName(o.resource, o.action, room))]
	area, version, by := "", "", ""
	if o.area != holder.area {
		area = o.area
	}
	if o.versions != holder.versions {
		version = o.versions
	}
	if more := slices.DeleteFunc(slices.Clone(o.params),
		func(p string) bool { return p == "" || slices.Contains(holder.params, p) }); len(more) > 0 {
		by = o.action + "_by_" + strings.Join(more, "_")
	}
	id := snake(o.id)
	switch {
	case area != "" && try(joined(area, o.resource), o.action):
	case version != "" && try(joined(version, o.resource), o.action):
	case version != "" && area != "" && try(joined(version, area, o.resource), o.action):
	case by != "" && try(o.resource, by):
	case try(joined(r.area, r.words()), o.action):
	case r.extra != "" && try(joined(o.resource, r.extra), o.action):
	case id != "" && try(o.resource, id):
	default:
		key := o.resource + "." + o.action
		for numbers[key] = max(numbers[key], 1) + 1; !try(o.resource, o.action+"_"+strconv.Itoa(numbers[key])); numbers[key]++ {
		}
	}
}

// words returns the fixed segments as written.
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
			return last.one, action
		}
		return resourceOf(nouns[:len(nouns)-1]), action
	}
	return resourceOf(nouns), r.standardAction(method, id, last)
}

// actionWord returns the action of a custom method. Unusual HTTP methods for it are told apart by name.
func actionWord(method, word string) string {
	if method == "get" || method == "post" {
		return word
	}
	return word + "_" + method
}

// trailingAction returns the last segment if it is an action on what precedes it: /charges/{id}/capture, /customers/search,
// /gists/starred. "": it is a resource.
func (r *route) trailingAction(method, id string, last noun) string {
	if last.param || len(r.nouns) < 2 {
		return ""
	}
	before := r.nouns[len(r.nouns)-2]
	verb := verbs[firstWord(last.word)]
	if last.plural && (!verb || firstWord(last.word) != firstWord(lastIDPart(id))) && last.word != "bulk" {
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

// standardAction follows from the method, and from whether one element or a whole collection is meant.
func (r *route) standardAction(method, id string, last noun) string {
	all := last.plural && !last.param
	switch method {
	case "get":
		if all || !last.param && saysList(id) {
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

// saysList reports whether an operationId says that it lists.
func saysList(id string) bool {
	words := lastIDPart(id)
	return firstWord(words) == "list" || lastWord(words) == "list" || firstWord(snake(id)) == "list"
}

// lastIDPart returns the last part of an operationId: list_forks for repos/list-forks.
func lastIDPart(id string) string { return snake(id[strings.LastIndexAny(id, "/.")+1:]) }

func resourceOf(nouns []noun) string {
	words := make([]string, len(nouns))
	for i, n := range nouns {
		words[i] = n.one
	}
	return strings.Join(words, ".")
}

// fromID names an operation whose path has no segment that counts, after its operationId: the parts of `drive.files.copy`,
// or the words of DescribeTable. Without one, it uses the segments that were left out.
func (r *route) fromID(method, id string) (resource, action string) {
	action = r.standardAction(method, id, noun{param: len(r.params) > 0})
	if parts := strings.FieldsFunc(id, func(c rune) bool { return c == '.' || c == '/' }); len(parts) > 1 {
		if len(parts) > 2 {
			parts = parts[1:] // the name of the API
		}
		words := make([]string, 0, len(parts))
		for _, part := range parts[:len(parts)-1] {
			if word, _ := singular(snake(part)); word != "" {
				words = append(words, word)
			}
		}
		return cmp.Or(strings.Join(words, "."), "root"), cmp.Or(snake(parts[len(parts)-1]), action)
	}
	words := snake(id)
	verb, rest, found := strings.Cut(words, "_")
	if verb == "batch" && found {
		second, others, more := strings.Cut(rest, "_")
		if more {
			verb, rest = "batch_"+second, others
		}
	}
	switch {
	case words == "":
		if skipped := joined(slices.Clone(r.skipped)...); skipped != "" {
			return joined(skipped, r.extra), action
		}
		return cmp.Or(r.extra, "root"), action
	case !found:
		return "root", words
	}
	resource, _ = singular(rest)
	return resource, verb
}

// shortenName shortens a name that is too long. The end of the resource and the action stay; a hash of the whole name
// replaces the rest.
func shortenName(resource, action string, room int) string {
	room = max(room, shortestName)
	name := resource + "." + action
	if len(name) <= room {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	if most := room / 2; len(action) > most {
		action = strings.TrimRight(action[:most], "_")
	}
	space := room - len(action) - 1 - len(hash)
	parts := strings.Split(resource, ".")
	kept := parts[len(parts)-1]
	for i := len(parts) - 2; i >= 0 && len(parts[i])+1+len(kept) <= space; i-- {
		kept = parts[i] + "." + kept
	}
	if len(kept) > space {
		kept = strings.TrimRight(kept[:space], "_.")
	}
	return kept + hash + "." + action
}
