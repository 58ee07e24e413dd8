package openapi

import "encoding/json"

// operation is one operation of a document, with all that a call needs worked out at load. Nothing of it changes after.
type operation struct {
	name        string // resource.action, without the source's name
	id          string // the document's operationId, "" when it has none
	place       string // "GET /repos/{owner}/{repo}": how warnings and errors name it
	description string

	method  string   // GET, PUT, …: upper case
	path    string   // the path template as the document has it, without the server's part
	servers []string // base URLs with their variables filled in, the operation's own first, else its path's, else the document's; may be relative to the document

	parameters []parameter
	body       *body // nil: none

	security []requirement // the alternatives; any one of them suffices; none: no credentials are asked for. An empty requirement means "without"

	input  json.RawMessage // one flat JSON Schema object of the arguments
	output json.RawMessage // JSON Schema of the result; nil: unknown
	effect effect
}

// effect is read, write or destroy with the idempotence that the method promises (RFC 9110, section 9.2).
type effect struct{ reads, destroys, idempotent bool }

// parameter is where one argument goes.
type parameter struct {
	arg           string // the argument's name in the flat input
	name          string // the name on the wire
	in            string // path, query, header, cookie
	style         string // simple, label, matrix, form, spaceDelimited, pipeDelimited, deepObject (OpenAPI's "style", never empty)
	explode       bool
	allowReserved bool
	required      bool
	mediaType     string // of a parameter with `content` (application/json): the value is written so; "" otherwise
}

// body is how the request's body is made of arguments.
type body struct {
	mediaType string   // the one chosen: JSON before form, multipart, text, anything else
	required  bool     // the body as a whole
	arg       string   // the one argument that is the whole body; "" when members are flat arguments
	members   []member // the flat arguments that are the members of the body's object
	// fields tell of form and multipart members how they are written, by wire name; nil for other media types.
	fields map[string]field
}

// member is an argument that is a member of the body's object.
type member struct {
	arg  string // the argument's name in the flat input
	name string // the member's name on the wire
}

// field is how a member of a form or a multipart body is written.
type field struct {
	mediaType string // of a multipart part: "application/json" for objects and arrays of objects, "" for plain text
	binary    bool   // a file: the argument is base64 text (or {"name","data"} with data in base64)
	style     string // form, deepObject, … of a member of application/x-www-form-urlencoded; "" is form
	explode   bool
}

// requirement names the security schemes that are needed together, with the scopes asked of each.
type requirement map[string][]string

// document is what is loaded of an OpenAPI document.
type document struct {
	title, version string // info.title, info.version
	format         string // "openapi 3.0.3", "openapi 3.1.0", "swagger 2.0"
	operations     []operation
	schemes        map[string]scheme
	skipped        []skipped // operations that cannot be called, with the reason
	notes          []note    // operations whose schemas were changed so that the validator takes them
}

// skipped is an operation that became no function.
type skipped struct{ place, reason string }

// note is what was done to an operation's schemas. Without a function it is about the document.
type note struct{ function, what string }
