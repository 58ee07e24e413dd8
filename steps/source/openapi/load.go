package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// loadOptions configure load; nil is the zero value.
type loadOptions struct {
	include, exclude []string // select the operations that become functions; see filter

	// external returns the text of another file that the document refers to. ref is the reference without its fragment, relative
	// to the document that contains it. nil: references to other files are left open, with a warning.
	external func(ref string) ([]byte, error)

	// source is the source's name. Function names, which are this name, a dot and the operation's name, have at most 64 bytes.
	// "": 16 bytes are reserved for it.
	source string

	headers map[string]bool // headers that every call has, in canonical form
}

// loader loads one document.
type loader struct {
	o           loadOptions
	document    *tree
	swagger2    bool // Swagger 2.0
	refSiblings bool // OpenAPI 3.1 and later: keywords next to a $ref count
	files       map[string]*tree
	resolutions map[reference]resolution
	outputs     map[value]resultSchema
	types       map[string][]string // media types of responses, joined, to those that operations share
	limits      schemaLimit
	size        struct{ inputs, results int } // the sizes of all schemas so far
	work        int                           // see countWork
	doc         *document
}

// reference is a $ref and the tree that contains it.
type reference struct {
	from *tree
	text string
}

type resolution struct {
	target value
	err    error
}

type resultSchema struct {
	schema   json.RawMessage
	warnings []string
}

// Bounds of the work on one document: the work that countWork counts, files loaded, references followed in a row, and the length of a
// path.
const maxWork, maxFiles, maxHops, maxPath = 25_000_000, 200, 32, 2000

// schemaLimit holds sizes in bytes. Beyond input or result, the deeper parts of a schema are left open; inputs and results bound
// all schemas of a document. A document that exceeds those is loaded again with the next limit. A document with very many
// operations starts with the last one.
type schemaLimit struct{ input, result, inputs, results int }

// schemaLimits are tried in this order. The numbers are input, result, inputs and results.
var schemaLimits = []schemaLimit{
	{128 << 10, 64 << 10, 16 << 20, 48 << 20},
	{32 << 10, 16 << 10, 16 << 20, 48 << 20},
	{8 << 10, 4 << 10, 16 << 20, 48 << 20},
	{2 << 10, 1 << 10, 96 << 20, 96 << 20},
}

// manyOperations is the number of operations above which a document starts with the last of schemaLimits.
const manyOperations = 16_000

// tooMuchWork is the panic value for a document that takes more work than any real one.
type tooMuchWork struct{}

// load loads an OpenAPI document (3.0, 3.1) or a Swagger 2.0 document, in JSON or YAML, into operations with names and schemas. It
// leaves out faulty operations, or their faulty parts, with a reason. It fails with bad_request (with Line and Column if known) if
// the text is not such a document, not_supported for another version, and limit_exceeded for a document that is too large (64 MiB
// of JSON, 24 MiB of YAML) or refers to itself endlessly.
func load(text []byte, o *loadOptions) (d *document, err error) {
	l := &loader{files: map[string]*tree{}, resolutions: map[reference]resolution{}, types: map[string][]string{}}
	if o != nil {
		l.o = *o
	}
	selection := &filter{l.o.include, l.o.exclude}
	if err := selection.check(); err != nil {
		return nil, err
	}
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case tooMuchWork:
			d, err = nil, fault.New(fault.LimitExceeded, "the document takes too much work: it refers to itself over and over")
		default:
			f := fault.New(fault.Internal, "the document could not be read: this is a defect of onecall")
			f.Err = fmt.Errorf("%v", panicked)
			d, err = nil, f
		}
	}()
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return nil, fault.New(fault.BadRequest, "this is not an OpenAPI document but a page, HTML or XML: check its address")
	}
	if l.document, err = parse(text); err != nil {
		return nil, err
	}
	if err := l.detectVersion(); err != nil {
		return nil, err
	}
	operations := l.selectOperations(selection)
	limits := schemaLimits
	if len(operations) > manyOperations {
		limits = limits[len(limits)-1:]
	}
	for _, limit := range limits {
		if l.limits = limit; l.build(operations) {
			return l.doc, nil
		}
	}
	return nil, fault.New(fault.LimitExceeded,
		"the schemas of the document's %d operations are too large: name the operations that are needed with include", len(operations))
}

// countWork adds n to the work and stops the load if it exceeds maxWork.
func (l *loader) countWork(n int) {
	if l.work += n; l.work > maxWork {
		panic(tooMuchWork{})
	}
}

// detectVersion sets l.doc to a document with a format, title and version but no operations. It fails if the text is not an OpenAPI
// document of a supported version.
func (l *loader) detectVersion() error {
	root := l.document.root()
	if !root.isObject() {
		return fault.New(fault.BadRequest, "this is not an OpenAPI document: it is not an object")
	}
	// A version is read as written, because it may be a number.
	version := func(name string) string { return strings.Trim(string(root.get(name).raw()), `"`) }
	swagger, openapi := version("swagger"), version("openapi")
	d := &document{title: root.get("info").get("title").text(), version: spelling(root.get("info").get("version"))}
	switch {
	case strings.HasPrefix(openapi, "3."), openapi == "3":
		d.format = "openapi " + openapi
		l.refSiblings = !strings.HasPrefix(openapi, "3.0") && openapi != "3"
	case strings.HasPrefix(swagger, "2"):
		d.format, l.swagger2 = "swagger "+swagger, true
	case openapi+swagger != "":
		return fault.New(fault.NotSupported, "OpenAPI version %s is not supported: use 3.0, 3.1 or Swagger 2.0", fault.Short(openapi+swagger))
	default:
		f := fault.New(fault.BadRequest, `this is not an OpenAPI document: it has neither "openapi" nor "swagger" at its top`)
		for name := range root.members() {
			if f.Available = append(f.Available, fault.Short(name)); len(f.Available) == 20 {
				break
			}
		}
		return f
	}
	if paths := root.get("paths"); paths.ok() && !paths.isObject() {
		f := fault.New(fault.BadRequest, `"paths" of the document is not an object`)
		f.Line, f.Column = l.document.lineColumn(int64(l.document.nodes[paths.at].start))
		return f
	}
	l.doc = d
	return nil
}

// spelling returns the text of a string, and any other value as written; "" for no node.
func spelling(v value) string {
	if v.kind() == '"' {
		return v.text()
	}
	return string(v.raw())
}

// operationNode is an operation's name with its nodes in the document.
type operationNode struct {
	operationName
	item, operation value
}

// selectOperations names all operations and returns those that the filter accepts. Names do not depend on the filter.
func (l *loader) selectOperations(selection *filter) []*operationNode {
	var all []*operationNode
	l.doc.warnings = slices.Concat(l.doc.warnings, duplicateKeyWarnings(l.document))
	for path, item := range l.document.root().get("paths").members() {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		all = append(all, l.pathOperations(path, item)...)
	}
	names := make([]*operationName, len(all))
	for i, node := range all {
		names[i] = &node.operationName
	}
	nameOperations(names, l.nameLimit())
	used := map[string]bool{}
	chosen := slices.DeleteFunc(all, func(node *operationNode) bool { return !selection.accepts(&node.operationName, used) })
	for _, pattern := range selection.unused(used) {
		l.doc.warnings = append(l.doc.warnings, warning{what: fmt.Sprintf("the pattern %q matches no operation", fault.Short(pattern))})
	}
	return chosen
}

// nameLimit returns the maximum bytes of an operation's name, before which a function's name has the source's name and a dot.
func (l *loader) nameLimit() int {
	const reserved = 16
	if l.o.source == "" {
		return longName - reserved - 1
	}
	return longName - len(l.o.source) - 1
}

func duplicateKeyWarnings(t *tree) []warning {
	if len(t.duplicates) == 0 {
		return nil
	}
	return []warning{{what: "duplicate keys, of which the last one counts: " + strings.Join(t.duplicates, ", ")}}
}

// pathOperations returns the operations of a path. It adds those that cannot be read to l.doc.skipped.
func (l *loader) pathOperations(path string, item value) []*operationNode {
	resolved, err := l.resolve(item)
	if err == nil && !resolved.isObject() {
		err = errors.New("it is not an object")
	}
	if err != nil {
		l.doc.skipped = append(l.doc.skipped, skippedOperation{label: fault.Short(path), reason: err.Error()})
		return nil
	}
	if len(path) > maxPath {
		l.doc.skipped = append(l.doc.skipped,
			skippedOperation{label: fault.Short(path), reason: fmt.Sprintf("the path is longer than %d bytes", maxPath)})
		return nil
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var list []*operationNode
	for key, operation := range resolved.members() {
		method := strings.ToLower(key)
		if !slices.Contains(methods, method) {
			continue
		}
		operation, err := l.resolve(operation)
		if err == nil && !operation.isObject() {
			err = errors.New("it is not an object")
		}
		if err != nil {
			l.doc.skipped = append(l.doc.skipped, skippedOperation{label: operationLabel(method, path), reason: err.Error()})
			continue
		}
		node := &operationNode{item: resolved, operation: operation}
		node.method, node.path, node.id = method, path, operation.get("operationId").text()
		list = append(list, node)
	}
	return list
}

func operationLabel(method, path string) string {
	return strings.ToUpper(method) + " " + fault.Short(path)
}

// build builds the operations. It returns false if their schemas are too large in total.
func (l *loader) build(list []*operationNode) bool {
	l.outputs = map[value]resultSchema{}
	l.size.inputs, l.size.results, l.work = 0, 0, 0
	warnings := len(l.doc.warnings)
	l.doc.operations = make([]operation, 0, len(list))
	l.doc.schemes = l.schemes()
	for _, node := range list {
		b := builder{l: l, node: node}
		l.doc.operations = append(l.doc.operations, b.operation())
		if len(b.warnings) > 0 {
			l.doc.warnings = append(l.doc.warnings, warning{function: node.name, what: strings.Join(b.warnings, "; ")})
		}
		if l.size.inputs > l.limits.inputs || l.size.results > l.limits.results {
			l.doc.warnings = l.doc.warnings[:warnings]
			return false
		}
	}
	return true
}

// resolve returns v, or the target of its $ref.
func (l *loader) resolve(v value) (value, error) {
	if reference := v.get("$ref"); reference.kind() == '"' {
		return l.follow(reference)
	}
	return v, nil
}

// follow returns the target of a $ref, following further ones.
func (l *loader) follow(ref value) (value, error) {
	l.countWork(1)
	key := reference{ref.t, ref.text()}
	if cached, ok := l.resolutions[key]; ok {
		return cached.target, cached.err
	}
	text := fault.Short(key.text)
	for range maxHops {
		target, err := l.step(ref)
		if err != nil {
			l.resolutions[key] = resolution{err: err}
			return value{}, err
		}
		if ref = target.get("$ref"); ref.kind() != '"' {
			l.resolutions[key] = resolution{target: target}
			return target, nil
		}
	}
	err := fmt.Errorf("the reference %s is circular", text)
	l.resolutions[key] = resolution{err: err}
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
	return value{}, fmt.Errorf("the reference %s has no target", fault.Short(text))
}

// file loads another file once.
func (l *loader) file(base, ref string) (*tree, error) {
	name := ref
	if base != "" {
		name = resolveFile(base, ref)
	}
	if l.o.external == nil {
		return nil, fmt.Errorf("the reference %s points outside the document, and only the document is read", fault.Short(ref))
	}
	if t, ok := l.files[name]; ok {
		if t == nil {
			return nil, fmt.Errorf("the file %s cannot be read", fault.Short(name))
		}
		return t, nil
	}
	l.files[name] = nil // so that a file that cannot be read is not tried again
	if len(l.files) > maxFiles {
		return nil, fmt.Errorf("the document refers to more than %d files", maxFiles)
	}
	text, err := l.o.external(name)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", fault.Short(name), err)
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", fault.Short(name), err)
	}
	l.countWork(len(t.nodes))
	t.base = name
	l.files[name] = t
	return t, nil
}

// resolveFile resolves a reference to a file, relative to the file base that contains it.
func resolveFile(base, ref string) string {
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
