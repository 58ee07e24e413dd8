package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// document is a schema converted to draft 2020-12, without the parts that cannot be checked.
type document struct {
	root               any
	idKeyword          string // $id; before draft 6, id
	rootID             string
	ids                map[string]bool // names that $id and $anchor define
	referenceTokens    map[string]bool // the tokens of all references
	branches           map[int]bool    // how many branches a schema has (see addWorkFormat), for all schemas
	refSiblingsIgnored bool            // keywords next to a $ref are ignored (before 2019-09)
	subschemas         int             // how many schemas were converted
	dropped            []string        // parts that were left out, with the reason
}

// normalize converts the drafts 4 to 2019-09 and OpenAPI's dialects to 2020-12: boolean exclusive bounds, nullable, lists of items,
// dependencies, ids. It drops keywords with invalid values, patterns that RE2 rejects, and references out of the document, so that
// the rest of the schema is still checked. It drops annotations, including format, without a warning, because they check nothing.
func normalize(schema []byte) (*document, error) {
	source, f := decode(schema)
	if f != nil {
		return nil, errors.New(f.Error())
	}
	d := &document{idKeyword: "$id", ids: map[string]bool{}, referenceTokens: map[string]bool{}, branches: map[int]bool{}}
	if object, ok := source.(map[string]any); ok {
		dialect, _ := object["$schema"].(string)
		for _, old := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
			d.refSiblingsIgnored = d.refSiblingsIgnored || strings.Contains(dialect, old)
		}
		if strings.Contains(dialect, "draft-03") || strings.Contains(dialect, "draft-04") {
			d.idKeyword = "id"
		}
		d.rootID = strings.TrimSuffix(d.identifier(object), "#")
	}
	d.collectNames(source, 0)
	d.root = d.schema(source, "", source, 0)
	return d, nil
}

// warnings joins the first warnings about dropped parts.
func (d *document) warnings() string {
	const maxListed = 5
	if len(d.dropped) > maxListed {
		return strings.Join(d.dropped[:maxListed], "; ") + fmt.Sprintf("; and %d more", len(d.dropped)-maxListed)
	}
	return strings.Join(d.dropped, "; ")
}

func (d *document) warn(at, format string, args ...any) {
	d.dropped = append(d.dropped, "#"+at+": "+fmt.Sprintf(format, args...))
}

func (d *document) identifier(object map[string]any) string {
	id, _ := object[d.idKeyword].(string)
	return id
}

// collectNames collects the names that references can use, and the tokens that references do use.
func (d *document) collectNames(v any, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if id := d.identifier(v); id != "" && !d.ignoresSiblings(v) {
			d.ids[strings.TrimSuffix(id, "#")] = true
		}
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if anchor, ok := v[keyword].(string); ok {
				d.ids["#"+anchor] = true
			}
		}
		if reference, ok := v["$ref"].(string); ok {
			if _, fragment, ok := strings.Cut(reference, "#"); ok {
				for _, token := range splitPointer(unescapeFragment(fragment)) {
					d.referenceTokens[token] = true
				}
			}
		}
		for _, child := range v {
			d.collectNames(child, depth+1)
		}
	case []any:
		for _, child := range v {
			d.collectNames(child, depth+1)
		}
	}
}

// schema converts one schema at a position. References of the form #/… point into base, the innermost schema around it with its own id.
func (d *document) schema(v any, at string, base any, depth int) any {
	d.subschemas++
	object, ok := v.(map[string]any)
	switch {
	case depth > maxSchemaDepth:
		d.warn(at, "nested more than %d levels deep", maxSchemaDepth)
		return true
	case d.subschemas > maxSubschemas: // compileValidator rejects the document
		return true
	case !ok:
		if _, ok := v.(bool); !ok {
			d.warn(at, "is not a schema")
			return true
		}
		return v
	}
	if d.ignoresSiblings(object) {
		object = withoutSiblings(object)
	}
	if id := d.identifier(object); depth > 0 && id != "" && !strings.HasPrefix(id, "#") {
		base = object
	}
	out := make(map[string]any, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		d.keyword(out, key, object[key], at+"/"+key, base, depth)
	}
	d.bounds(out, object, at)
	d.items(out, object, at, base, depth)
	d.dependencies(out, object, at, base, depth)
	d.identity(out, object, depth)
	d.reference(out, object, at, base)
	d.addWorkFormat(out)
	if depth == 0 {
		return out
	}
	return addNull(out, object)
}

// addWorkFormat sets format, which otherwise checks nothing, to the schema's number of branches (see compiledSchema).
func (d *document) addWorkFormat(out map[string]any) {
	branches := 0
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := out[keyword].([]any)
		branches += len(list)
	}
	dependent, _ := out["dependentSchemas"].(map[string]any)
	branches += len(dependent)
	d.branches[branches] = true
	out["format"] = workFormat(branches)
}

// keyword converts one keyword into out. A value that is not of the keyword's form is dropped with a warning.
func (d *document) keyword(out map[string]any, key string, v any, at string, base any, depth int) {
	form, known := forms[key]
	if !known {
		// It is not a keyword, but a reference may lead into it.
		if _, ok := v.(map[string]any); ok && d.referenceTokens[key] {
			out[key] = d.schema(v, at, base, depth+1)
		}
		return
	}
	ok, original := true, v
	switch form {
	case formAnnotation, formRewritten:
		return
	case formSchema:
		out[key] = d.schema(v, at, base, depth+1)
		return
	case formSchemaList:
		var list []any
		if list, ok = v.([]any); ok && len(list) > 0 {
			schemas := make([]any, len(list))
			for i := range list {
				schemas[i] = d.schema(list[i], at+"/"+strconv.Itoa(i), base, depth+1)
			}
			out[key] = schemas
			return
		}
		ok = false
	case formSchemaMap, formPatternMap:
		var object map[string]any
		if object, ok = v.(map[string]any); ok {
			out[key] = d.schemas(object, at, form == formPatternMap, base, depth)
			return
		}
	case formWordsMap:
		var object map[string]any
		if object, ok = v.(map[string]any); ok {
			out[key] = d.wordLists(object, at)
			return
		}
	case formTypes:
		v, ok = parseTypes(v)
	case formWords:
		v, ok = wordList(v)
	case formValues:
		list, isList := v.([]any)
		ok = isList && len(list) > 0
	case formPattern:
		expression, isText := v.(string)
		_, err := compileRegexp(expression)
		ok = isText && err == nil
	case formText:
		_, ok = v.(string)
	case formFlag:
		_, ok = v.(bool)
	case formCount, formNumber, formPositive:
		v, ok = parseNumber(v, form)
	}
	if !ok {
		d.warn(at, "%s", unusableReason(form, original))
		return
	}
	out[key] = v
}

// anyName is a pattern that matches every name.
const anyName = "(?:)"

// schemas converts an object of schemas. If patterns is set, its keys are patterns of names. Because nobody knows which names an unusable
// pattern allows, it is replaced by one that allows all names.
func (d *document) schemas(object map[string]any, at string, patterns bool, base any, depth int) map[string]any {
	schemas := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, err := compileRegexp(name); patterns && err != nil {
			d.warn(at, "the pattern %s cannot be used", fault.Quote(name))
			schemas[anyName] = true
			continue
		}
		schemas[name] = d.schema(object[name], at+"/"+name, base, depth+1)
	}
	return schemas
}

func (d *document) wordLists(object map[string]any, at string) map[string]any {
	lists := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		list, ok := wordList(object[name])
		if !ok {
			d.warn(at+"/"+name, "cannot be used")
			continue
		}
		lists[name] = list
	}
	return lists
}

// bounds converts exclusive bounds. An exclusive bound is true or false beside an inclusive bound (draft 4, OpenAPI 3.0), or a number.
func (d *document) bounds(out, object map[string]any, at string) {
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		switch v := object[exclusive].(type) {
		case nil:
		case bool:
			if bound, ok := out[inclusive]; v && ok {
				out[exclusive] = bound
				delete(out, inclusive)
			}
		case json.Number:
			out[exclusive] = v
		default:
			d.warn(at+"/"+exclusive, "cannot be used")
		}
	}
}

// items converts a list of items (before 2020-12) to prefixItems.
func (d *document) items(out, object map[string]any, at string, base any, depth int) {
	items, ok := object["items"]
	if !ok {
		return
	}
	list, ok := items.([]any)
	if !ok {
		out["items"] = d.schema(items, at+"/items", base, depth+1)
		return
	}
	if len(list) > 0 {
		d.keyword(out, "prefixItems", list, at+"/items", base, depth)
	}
	if additional, ok := object["additionalItems"]; ok {
		out["items"] = d.schema(additional, at+"/additionalItems", base, depth+1)
	}
}

// dependencies splits the old keyword into its two successors.
func (d *document) dependencies(out, object map[string]any, at string, base any, depth int) {
	dependencies, _ := object["dependencies"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(dependencies)) {
		keyword := "dependentSchemas"
		var value any
		if list, ok := wordList(dependencies[name]); ok {
			keyword, value = "dependentRequired", list
		} else {
			value = d.schema(dependencies[name], at+"/dependencies/"+name, base, depth+1)
		}
		merged, ok := out[keyword].(map[string]any)
		if !ok {
			merged = map[string]any{}
			out[keyword] = merged
		}
		merged[name] = value
	}
}

// identity keeps the ids of inner schemas. It drops the root's id, because references to it are rewritten.
func (d *document) identity(out, object map[string]any, depth int) {
	id := d.identifier(object)
	switch {
	case id == "" || depth == 0:
	case strings.HasPrefix(id, "#"):
		out["$anchor"] = id[1:]
	default:
		out["$id"] = strings.TrimSuffix(id, "#")
	}
}

// reference keeps a reference into the document, or to a draft's own schema, and drops any other with a warning.
func (d *document) reference(out, object map[string]any, at string, base any) {
	reference, ok := object["$ref"].(string)
	if !ok {
		reference, ok = object["$recursiveRef"].(string)
	}
	if !ok {
		if _, bad := object["$ref"]; bad {
			d.warn(at+"/$ref", "cannot be used")
		}
		return
	}
	if d.rootID != "" {
		reference = strings.TrimPrefix(reference, d.rootID)
	}
	if reference == "" {
		reference = "#"
	}
	fragment, local := strings.CutPrefix(reference, "#")
	document, _, _ := strings.Cut(reference, "#")
	switch {
	case local && (fragment == "" || strings.HasPrefix(fragment, "/")):
		_, ok = lookup(base, fragment)
	case local:
		ok = d.ids[reference]
	default:
		ok = d.ids[document] || strings.Contains(document, "://json-schema.org/draft")
	}
	if !ok {
		d.warn(at+"/$ref", "leads to %s, which is not in the schema and is not loaded", fault.Quote(reference))
		return
	}
	out["$ref"] = reference
}

// lookup follows the fragment of a reference (a JSON Pointer, percent-encoded) in a decoded document.
func lookup(doc any, fragment string) (any, bool) {
	for _, token := range splitPointer(unescapeFragment(fragment)) {
		switch v := doc.(type) {
		case map[string]any:
			child, ok := v[token]
			if !ok {
				return nil, false
			}
			doc = child
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// addNull adds null to a schema with the keyword nullable (OpenAPI 3.0) or x-nullable (Swagger 2.0).
func addNull(out, object map[string]any) any {
	if object["nullable"] != true && object["x-nullable"] != true {
		return out
	}
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf", "const", "not", "if"} {
		if _, composed := out[keyword]; composed {
			return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
		}
	}
	switch types := out["type"].(type) {
	case string:
		out["type"] = withoutDuplicates(types, "null")
	case []any:
		out["type"] = withoutDuplicates(append(types, "null")...)
	}
	if values, ok := out["enum"].([]any); ok {
		out["enum"] = append(slices.Clone(values), nil)
	}
	return out
}
