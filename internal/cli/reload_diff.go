package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// setting is one value of a configuration as text, with the JSON Pointer to it. It may be a secret.
type setting struct{ at, text string }

// flatten gives the values that a part of a configuration says, each by the first spelling of its key, in an order that is the
// same each time. A list, and a value that is any JSON, is one value; a table of names, or a list of objects, is not.
func flatten(part any) []setting {
	f := &flattener{}
	f.value(reflect.ValueOf(part), "")
	return f.settings
}

type flattener struct{ settings []setting }

func (f *flattener) add(at, text string) { f.settings = append(f.settings, setting{at, text}) }

func (f *flattener) value(v reflect.Value, at string) {
	switch v.Kind() {
	case reflect.Invalid:
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		if v.Elem().Kind() == reflect.Struct && at != "" {
			f.add(at, "") // which may say nothing, and be there
		}
		f.value(v.Elem(), at)
	case reflect.Struct:
		f.object(v, at)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			f.value(v.MapIndex(key), fault.Key(at, key.String()))
		}
	case reflect.Slice:
		f.list(v, at)
	default:
		f.add(at, fmt.Sprint(v.Interface()))
	}
}

func (f *flattener) object(v reflect.Value, at string) {
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key != "" {
			f.value(v.Field(i), fault.Key(at, key))
		}
	}
}

func (f *flattener) list(v reflect.Value, at string) {
	if v.IsNil() {
		return
	}
	if raw, ok := v.Interface().(json.RawMessage); ok {
		f.add(at, string(raw))
		return
	}
	if v.Type().Elem().Kind() != reflect.Struct {
		f.add(at, fmt.Sprintf("%q", v.Interface()))
		return
	}
	for i := range v.Len() {
		entry, place := v.Index(i), fault.Index(at, i)
		switch name := entry.FieldByName("Name"); {
		case name.Kind() == reflect.String: // of a table
			place = fault.Key(at, name.String())
			entry = entry.FieldByName("Config")
		case name.Kind() == reflect.Pointer && !name.IsNil(): // as in a table
			place = fault.Key(at, name.Elem().String())
		}
		f.add(place, "") // an entry comes and goes as one
		f.value(entry, place)
	}
}

// difference is what a configuration says other than the one before it, by JSON Pointer.
type difference struct{ added, removed, changed []string }

// differ compares two configurations. files are what the files that they name held.
func differ(before, after *config.Config, filesBefore, filesAfter map[string]string) (d difference) {
	was, is := byPointer(before, filesBefore), byPointer(after, filesAfter)
	for _, at := range slices.Sorted(maps.Keys(is)) {
		switch text, there := was[at]; {
		case !there:
			d.added = appendPlace(d.added, at)
		case text != is[at]:
			d.changed = append(d.changed, at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(was)) {
		if _, there := is[at]; !there {
			d.removed = appendPlace(d.removed, at)
		}
	}
	return d
}

// appendPlace adds a place to those before it, unless it is within one of them. Places come in their order.
func appendPlace(places []string, at string) []string {
	if slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(at, place+"/") }) {
		return places
	}
	return append(places, at)
}

func byPointer(c *config.Config, files map[string]string) map[string]string {
	all := map[string]string{}
	for _, one := range flatten(c) {
		all[one.at] = one.text
	}
	for at, digest := range files {
		all[at] += "\n" + digest
	}
	return all
}

// all are the places of the difference.
func (d *difference) all() []string { return slices.Concat(d.added, d.removed, d.changed) }

// touches tells whether one of the places lies at or under one of these.
func (d *difference) touches(places ...string) bool {
	return slices.ContainsFunc(d.all(), func(at string) bool {
		return slices.ContainsFunc(places, func(place string) bool { return at == place || len(at) > len(place) && at[:len(place)+1] == place+"/" })
	})
}

// change is what becomes other when a configuration is served in the place of another.
type change struct {
	difference
	opened, closed, kept []string // sources
	more, less           int      // functions
	later                []string // what is not carried out before a restart, by JSON Pointer
}

// untilRestart are the places of a configuration whose changes are carried out when the server starts.
func (a *app) untilRestart() []string {
	if a.use.anySurface {
		return []string{"/session/timeout"}
	}
	return []string{"/access/stdio"}
}

// compare tells what becomes other when next takes the place of the app that is served.
func (r *reloader) compare(next *app) *change {
	before := r.app
	c := &change{difference: differ(&before.config.Config, &next.config.Config, before.seen.contents(before.named), next.seen.contents(next.named))}
	for name, key := range before.held {
		if next.held[name] != key || slices.Contains(next.opened, name) {
			c.closed = append(c.closed, name)
		}
	}
	for name := range next.held {
		if !slices.Contains(next.opened, name) {
			c.kept = append(c.kept, name)
		}
	}
	c.opened = slices.Sorted(slices.Values(next.opened))
	slices.Sort(c.closed)
	slices.Sort(c.kept)
	since := differ(r.began, &next.config.Config, nil, nil)
	for _, at := range next.untilRestart() {
		if since.touches(at) {
			c.later = append(c.later, at)
		}
	}
	return c
}

// urgent tells whether calls may do less from now on, but for rights: then no new source is waited for.
func (c *change) urgent() bool {
	gone := difference{removed: c.removed}
	if c.touches("/functions", "/http/allow", "/http/endpoints", "/fs") || gone.touches("/mcpServers", "/openapi") {
		return true
	}
	return slices.ContainsFunc(c.all(), func(at string) bool {
		return slices.Contains([]string{"includeTools", "excludeTools", "include", "exclude", "disabled"}, at[strings.LastIndexByte(at, '/')+1:])
	})
}

// keeps tells whether results that were kept by another configuration's store are there by this one's, of who serves.
func keeps(c, before *config.Results) bool { return storePlace(c) == storePlace(before) }

// storePlace tells stores apart, whoever uses them: another password of a server's finds what was kept by the one before.
func storePlace(c *config.Results) string {
	where := config.Or(c.Store, "memory")
	server, err := url.Parse(where)
	if err != nil {
		return where
	}
	server.User = nil
	return server.String()
}

// count counts the functions that come and go.
func (c *change) count(before, after map[string]bool) {
	for name := range after {
		if !before[name] {
			c.more++
		}
	}
	for name := range before {
		if !after[name] {
			c.less++
		}
	}
}

// shownPlaces bounds how many places of a difference are told.
const shownPlaces = 20

// few are the first of places, and how many there are beside them.
func few(places []string) []string {
	if len(places) <= shownPlaces {
		return places
	}
	return append(slices.Clone(places[:shownPlaces]), fmt.Sprintf("and %d more", len(places)-shownPlaces))
}

// tell logs a change, and tells a person of it. Values are never shown: they may be secrets.
func (r *reloader) tell(c *change, took time.Duration) {
	r.logs.logger().Info("configuration reloaded", "file", r.path(),
		"added", few(c.added), "removed", few(c.removed), "changed", few(c.changed),
		"sources_opened", c.opened, "sources_closed", c.closed, "sources_kept", c.kept,
		"functions_added", c.more, "functions_removed", c.less, "needs_restart", c.later, "ms", took.Milliseconds())
	r.say("%s", c.words(r.path()))
	for _, at := range c.later {
		r.app.told.warn(r.app.config.Under(at, fault.New(fault.BadRequest, "this change is carried out when the server is started again")))
	}
}

// words tell a person of a change.
func (c *change) words(path string) string {
	var parts []string
	add := func(what string, places []string) {
		if len(places) > 0 {
			parts = append(parts, what+" "+strings.Join(few(places), ", "))
		}
	}
	add("added", c.added)
	add("removed", c.removed)
	add("changed", c.changed)
	if len(parts) == 0 {
		parts = append(parts, "nothing changed in it")
	}
	add("opened", c.opened)
	add("closed", c.closed)
	if c.more+c.less > 0 {
		parts = append(parts, fmt.Sprintf("%s more, %d less", plural(c.more, "function"), c.less))
	}
	return cmp.Or(path, "the default configuration") + " is loaded: " + strings.Join(parts, "; ")
}
