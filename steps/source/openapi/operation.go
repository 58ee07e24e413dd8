package openapi

import (
	"encoding/json"
	"strconv"
)

// operation is one operation of a document, with everything that a call needs. It does not change after loading.
type operation struct {
	name        string // resource.action, without the source's name
	id          string // the document's operationId, "" if it has none
	label       string // "GET /repos/{owner}/{repo}", for warnings and errors
	description string

	method  string   // GET, PUT, …: upper case
	path    string   // the path template as in the document, without the server's part
	servers []string // base URLs, possibly relative to the document's: the operation's, else its path's, else the document's

	parameters []parameter
	body       *body // nil: none

	security []requirement // alternatives, any of which suffices; none, or an empty alternative: no credentials are needed

	input  json.RawMessage // one flat JSON Schema object of the arguments
	output json.RawMessage // JSON Schema of the result; nil: unknown
	effect effect

	responses []response // the successes that the document declares, and its default
}

// response holds the media types of one declared response.
type response struct {
	status string   // 200, 2xx or default
	types  []string // none: the document says nothing of the body, or allows any
}

// declaredTypes returns the media types that the document declares for the body of a success; none: any. A status that is not declared has
// the types of all that are.
func (op *operation) declaredTypes(status int) (types []string) {
	code := strconv.Itoa(status)
	for _, name := range []string{code, code[:1] + "xx", "default"} {
		for _, r := range op.responses {
			if r.status == name {
				return r.types
			}
		}
	}
	for _, r := range op.responses {
		types = append(types, r.types...)
	}
	return types
}

// effect is read, destroy, or, if neither is set, write, with the idempotence that the method promises (RFC 9110, section 9.2).
type effect struct{ reads, destroys, idempotent bool }

// parameter is the position of one argument in the request.
type parameter struct {
	arg           string // the argument's name in the flat input
	name          string // the name on the wire
	in            string // path, query, header, cookie
	style         string // OpenAPI's style, never empty: simple, label, matrix, form, spaceDelimited, pipeDelimited, deepObject
	explode       bool
	allowReserved bool
	required      bool
	mediaType     string // the media type of a parameter with `content` (application/json), whose value is encoded as this type; else ""
}

// body describes how the request's body is built from arguments.
type body struct {
	mediaType string   // the chosen one: JSON before form, multipart, text, anything else
	required  bool     // the body as a whole is required
	arg       string   // the argument that is the whole body; "" if members are flat arguments
	members   []member // the flat arguments that are the members of the body's object
	// fields say how form and multipart members are encoded, by name on the wire; nil for other media types.
	fields map[string]field
}

// member is an argument that is a member of the body's object.
type member struct {
	arg  string // the argument's name in the flat input
	name string // the member's name on the wire
}

// field describes how a member of a form or a multipart body is encoded.
type field struct {
	mediaType string // the declared media type; else, in a multipart body, "application/json" for objects and arrays of objects; else ""
	binary    bool   // a file: the argument is base64 text (or {"name","data"} with data in base64)
	style     string // for a member of application/x-www-form-urlencoded: form, deepObject, …; "": form
	explode   bool
}

// requirement names the security schemes that are needed together, with their scopes.
type requirement map[string][]string

// document is a loaded OpenAPI document.
type document struct {
	title, version string // info.title, info.version
	format         string // "openapi 3.0.3", "openapi 3.1.0", "swagger 2.0"
	operations     []operation
	schemes        map[string]scheme
	skipped        []skippedOperation // operations that cannot be called, with the reason
	warnings       []warning          // what was changed or left out, by operation or in the whole document
}

// skippedOperation is an operation that did not become a function.
type skippedOperation struct{ label, reason string }

// warning says what was changed or left out in an operation. If function is "", it is about the whole document.
type warning struct{ function, what string }
