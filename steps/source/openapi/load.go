package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// loadOptions tell how a document is read; nil is the zero value.
type loadOptions struct {
	include, exclude []string // patterns of the operations that become functions; see filter

	// external gives the text of another file that the document refers to, by the reference without its fragment, taken
	// relative to the document that holds it. nil: what refers to another file is left open, with a note.
	external func(ref string) ([]byte, error)

	// source is the name of the source: function names are at most 64 bytes with it and a dot before them. "": 16 bytes
	// are kept for it.
	source string

	headers map[string]bool // in canonical form, that every call gets whatever its arguments are
}

// loader reads one document.
type loader struct {
	o        loadOptions
	root     *tree
	old      bool // Swagger 2.0
	modern   bool // OpenAPI 3.1 and later: what stands beside a $ref counts
	files    map[string]*tree
	followed map[reference]followed
	outputs  map[value]resultSchema
	limits   schemaLimit
	size     struct{ inputs, results int } // of all schemas so far
	work     int
	doc      *document
}

// reference is a $ref in the tree that it stands in.
type reference struct {
	from *tree
	text string
}

type followed struct {
	target value
	err    error
}

type resultSchema struct {
	schema json.RawMessage
	notes  []string
}

// Bounds of the work on one document: schemas looked at, files referred to, hops from reference to reference, and the
// length of a path.
const maxWork, maxFiles, maxHops, maxPath = 25_000_000, 200, 32, 2000

// schemaLimit is the size, in bytes, past which a schema's farther parts are left open, of arguments and of results; and
// what all of a document's schemas may have with it. A document that has more is read again with the next limit, which
// one of very many operations begins and ends with.
type schemaLimit struct{ input, result, inputs, results int }

var schemaLimits = []schemaLimit{
	{128 << 10, 64 << 10, 16 << 20, 48 << 20},
	{32 << 10, 16 << 10, 16 << 20, 48 << 20},
	{8 << 10, 4 << 10, 16 << 20, 48 << 20},
	{2 << 10, 1 << 10, 96 << 20, 96 << 20},
}

const manyOperations = 16_000

// givenUp ends the reading of a document that takes more work than a real one does.
type givenUp struct{}

// load reads an OpenAPI document (3.0, 3.1) or a Swagger 2.0 one, in JSON or YAML, into operations with names and schemas.
// What is wrong with one operation leaves out or opens that part of it, with a reason; load fails with bad_request (Line
// and Column where they are known) for what is not such a document at all, not_supported for another version, and
// limit_exceeded for one that is too large (64 MiB of JSON, 24 MiB of YAML) or that refers to itself without end.
func load(text []byte, o *loadOptions) (d *document, err error) {
	l := &loader{files: map[string]*tree{}, followed: map[reference]followed{}}
	if o != nil {
		l.o = *o
	}
	kept := &filter{l.o.include, l.o.exclude}
	if err := kept.check(); err != nil {
		return nil, err
	}
	defer func() {
		switch given := recover().(type) {
		case nil:
		case givenUp:
			d, err = nil, fault.New(fault.LimitExceeded, "the document takes too much work: it refers to itself over and over")
		default:
			f := fault.New(fault.Internal, "the document could not be read: this is a defect of onecall")
			f.Err = fmt.Errorf("%v", given)
			d, err = nil, f
		}
	}()
	if l.root, err = parse(text); err != nil {
		return nil, err
	}
	if err := l.begin(); err != nil {
		return nil, err
	}
	found := l.operations(kept)
	limits := schemaLimits
	if len(found) > manyOperations {
		limits = limits[len(limits)-1:]
	}
	for _, limit := range limits {
		if l.limits = limit; l.build(found) {
			return l.doc, nil
		}
	}
	return nil, fault.New(fault.LimitExceeded, "the schemas of the document's %d operations are too large: name the operations that are needed with include", len(found))
}

// spend counts work.
func (l *loader) spend(n int) {
	if l.work += n; l.work > maxWork {
		panic(givenUp{})
	}
}

// begin finds out what the document is.
func (l *loader) begin() error {
	root := l.root.root()
	if !root.isObject() {
		return fault.New(fault.BadRequest, "this is no OpenAPI document: it is no object")
	}
	version := func(name string) string { return strings.Trim(string(root.get(name).raw()), `"`) }
	swagger, openapi := version("swagger"), version("openapi")
	d := &document{title: root.get("info").get("title").text(), version: spelling(root.get("info").get("version"))}
	switch {
	case strings.HasPrefix(openapi, "3."), openapi == "3":
		d.format = "openapi " + openapi
		l.modern = !strings.HasPrefix(openapi, "3.0") && openapi != "3"
	case strings.HasPrefix(swagger, "2"):
		d.format, l.old = "swagger "+swagger, true
	case openapi+swagger != "":
		return fault.New(fault.NotSupported, "version %s of OpenAPI is not read: 3.0, 3.1 and Swagger 2.0 are", shorten(openapi+swagger))
	default:
		f := fault.New(fault.BadRequest, `this is no OpenAPI document: it has neither "openapi" nor "swagger" at its top`)
		for name := range root.members() {
			if f.Available = append(f.Available, shorten(name)); len(f.Available) == 20 {
				break
			}
		}
		return f
	}
	if paths := root.get("paths"); paths.ok() && !paths.isObject() {
		f := fault.New(fault.BadRequest, `"paths" of the document is no object`)
		f.Line, f.Column = l.root.place(int64(l.root.nodes[paths.at].start))
		return f
	}
	l.doc = d
	return nil
}

func spelling(v value) string {
	if v.kind() == '"' {
		return v.text()
	}
	return string(v.raw())
}

// found is an operation with the places that it is read from.
type found struct {
	named
	item, operation value
}

// operations finds and names all operations, and keeps those that the filter keeps: a name does not depend on it.
func (l *loader) operations(kept *filter) []*found {
	var all []*found
	l.doc.notes = slices.Concat(l.doc.notes, repeatedNote(l.root))
	for path, item := range l.root.root().get("paths").members() {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		all = append(all, l.pathItem(path, item)...)
	}
	names := make([]*named, len(all))
	for i, f := range all {
		names[i] = &f.named
	}
	nameOperations(names, l.room())
	used := map[string]bool{}
	chosen := slices.DeleteFunc(all, func(f *found) bool { return !kept.keeps(&f.named, used) })
	for _, pattern := range kept.unused(used) {
		l.doc.notes = append(l.doc.notes, note{what: fmt.Sprintf("the pattern %q fits no operation", shorten(pattern))})
	}
	return chosen
}

func (l *loader) room() int {
	const sourceRoom = 16
	if l.o.source == "" {
		return longName - sourceRoom - 1
	}
	return longName - len(l.o.source) - 1
}

func repeatedNote(t *tree) []note {
	if len(t.repeated) == 0 {
		return nil
	}
	return []note{{what: "keys that stand twice, of which the last counts: " + strings.Join(t.repeated, ", ")}}
}

// pathItem lists the operations of a path.
func (l *loader) pathItem(path string, item value) []*found {
	resolved, err := l.resolve(item)
	if err == nil && !resolved.isObject() {
		err = errors.New("it is no object")
	}
	if err != nil {
		l.doc.skipped = append(l.doc.skipped, skipped{place: shorten(path), reason: err.Error()})
		return nil
	}
	if len(path) > maxPath {
		l.doc.skipped = append(l.doc.skipped, skipped{place: shorten(path), reason: fmt.Sprintf("the path is longer than %d bytes", maxPath)})
		return nil
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var list []*found
	for key, operation := range resolved.members() {
		method := strings.ToLower(key)
		if !slices.Contains(methods, method) {
			continue
		}
		operation, err := l.resolve(operation)
		if err == nil && !operation.isObject() {
			err = errors.New("it is no object")
		}
		if err != nil {
			l.doc.skipped = append(l.doc.skipped, skipped{place: place(method, path), reason: err.Error()})
			continue
		}
		f := &found{item: resolved, operation: operation}
		f.method, f.path, f.id = method, path, operation.get("operationId").text()
		list = append(list, f)
	}
	return list
}

func place(method, path string) string { return strings.ToUpper(method) + " " + shorten(path) }

// build makes the operations; false when their schemas are too large in all.
func (l *loader) build(list []*found) bool {
	l.outputs = map[value]resultSchema{}
	l.size.inputs, l.size.results, l.work = 0, 0, 0
	notes := len(l.doc.notes)
	l.doc.operations = make([]operation, 0, len(list))
	l.doc.schemes = l.schemes()
	for _, f := range list {
		b := builder{l: l, found: f}
		l.doc.operations = append(l.doc.operations, b.operation())
		if len(b.notes) > 0 {
			l.doc.notes = append(l.doc.notes, note{function: f.name, what: strings.Join(b.notes, "; ")})
		}
		if l.size.inputs > l.limits.inputs || l.size.results > l.limits.results {
			l.doc.notes = l.doc.notes[:notes]
			return false
		}
	}
	return true
}

// resolve gives what a value is, or what its $ref leads to.
func (l *loader) resolve(v value) (value, error) {
	if reference := v.get("$ref"); reference.kind() == '"' {
		return l.follow(reference)
	}
	return v, nil
}

// follow gives what the text of a $ref leads to, through further ones.
func (l *loader) follow(ref value) (value, error) {
	l.spend(1)
	key := reference{ref.t, ref.text()}
	if known, ok := l.followed[key]; ok {
		return known.target, known.err
	}
	text := shorten(key.text)
	for range maxHops {
		target, err := l.step(ref)
		if err != nil {
			l.followed[key] = followed{err: err}
			return value{}, err
		}
		if ref = target.get("$ref"); ref.kind() != '"' {
			l.followed[key] = followed{target: target}
			return target, nil
		}
	}
	err := fmt.Errorf("the reference %s leads in a circle", text)
	l.followed[key] = followed{err: err}
	return value{}, err
}

// step follows one reference.
func (l *loader) step(ref value) (value, error) {
	text := ref.text()
	file, fragment, _ := strings.Cut(text, "#")
	t := ref.t
	if file != "" {
		var err error
		if t, err = l.file(ref.t.base, file); err != nil {
			return value{}, err
		}
	}
	if target := t.root().pointer(fragment); target.ok() {
		return target, nil
	}
	return value{}, fmt.Errorf("the reference %s leads to nothing", shorten(text))
}

// file reads another file that is referred to, once.
func (l *loader) file(base, ref string) (*tree, error) {
	name := ref
	if base != "" {
		name = relative(base, ref)
	}
	if l.o.external == nil {
		return nil, fmt.Errorf("the reference %s leads out of the document, and only the document is read", shorten(ref))
	}
	if t, ok := l.files[name]; ok {
		if t == nil {
			return nil, fmt.Errorf("the file %s cannot be read", shorten(name))
		}
		return t, nil
	}
	l.files[name] = nil
	if len(l.files) > maxFiles {
		return nil, fmt.Errorf("more than %d files are referred to", maxFiles)
	}
	text, err := l.o.external(name)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", shorten(name), err)
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", shorten(name), err)
	}
	l.spend(len(t.nodes))
	t.base = name
	l.files[name] = t
	return t, nil
}

// relative takes a reference relative to the file that holds it.
func relative(base, ref string) string {
	if u, err := url.Parse(base); err == nil && u.IsAbs() {
		if r, err := u.Parse(ref); err == nil {
			return r.String()
		}
	}
	if u, err := url.Parse(ref); err == nil && u.IsAbs() || path.IsAbs(ref) {
		return ref
	}
	return path.Join(path.Dir(base), ref)
}
