package files

import (
	"bytes"
	"encoding/json"

	"github.com/onecall-mcp/onecall/steps"
)

// functions are the specs of all functions; Source.Functions adds Call and Check. Agents read the descriptions and input schemas, so
// every word costs tokens.
var functions = []steps.Function{
	spec("fs.list", "List a folder's entries.", nil, `
		"path":   {"type":"string","description":"default: the root"},
		"depth":  {"type":"integer","minimum":1,"default":1},
		`+pageInput, []string{"path", "count", "entries"}, `
		"path":    {"type":"string"},
		"count":   {"type":"integer"},
		"entries": {"type":"array","items":{"type":"object","properties":{
			"name":{"type":"string"},"path":{"type":"string"},
			"type":{"enum":["file","dir","link","other"]},"size":{"type":"integer"}},
			"required":["name","path","type"],"additionalProperties":false}},
		`+pageOutput+`,
		`+skippedOutput),

	spec("fs.find", "Find files by name. Many: counts by folder beside a page of paths.", []string{"pattern"}, `
		"pattern": {"type":"string","minLength":1,"description":"glob; without / it matches names at any depth, else paths from path on"},
		"path":    {"type":"string","description":"folder; default: the root"},
		"type":    {"enum":["file","dir","link","any"],"default":"file"},
		`+filterInput+`,
		`+pageInput, []string{"count", "files"}, `
		"count":   {"type":"integer"},
		"files":   {"type":"array","items":{"type":"string"}},
		"folders": {"type":"array","items":`+folderOutput+`},
		`+pageOutput+`,
		`+skippedOutput),

	spec("fs.tree", "Outline of a folder: folders with the number of files below, down to depth.", nil, `
		"path":  {"type":"string","description":"default: the root"},
		"depth": {"type":"integer","minimum":1,"default":2},
		`+filterInput+`,
		`+pageInput, []string{"path", "files", "folders", "tree"}, `
		"path":{"type":"string"},"files":{"type":"integer"},"folders":{"type":"integer"},"tree":{"type":"string"},
		`+pageOutput+`,
		`+skippedOutput),

	spec("fs.stat", "Type, size and time of a file or folder.", []string{"path"}, `
		"path":   {"type":"string"},
		`+digestInput, []string{"path", "type", "modified"}, `
		"path":{"type":"string"},"type":{"enum":["file","dir","link","other"]},"size":{"type":"integer"},
		"modified":{"type":"string"},"link":{"type":"string"},"digest":{"type":"string"}`),

	spec("fs.grep", "Search file contents by line. Files with definitions first, tests last; hot: the folder with half of the matches.", []string{"pattern"}, `
		"pattern":    {"type":"string","description":"RE2 regular expression"},
		"path":       {"type":"string","description":"file or folder; default: the root"},
		"glob":       {"type":"string","minLength":1,"description":"only these files, such as *.{ts,tsx}"},
		"ignoreCase": {"type":"boolean"},
		"word":       {"type":"boolean","description":"whole words"},
		"literal":    {"type":"boolean","description":"pattern is plain text"},
		"context":    {"type":"integer","minimum":0,"maximum":100,"description":"lines before and after"},
		"top":        {"type":"integer","minimum":1,"maximum":100,"description":"only so many matches of each file, definitions first"},
		`+filterInput+`,
		`+pageInput, []string{"count", "fileCount", "files"}, `
		"count":     {"type":"integer"},
		"fileCount": {"type":"integer"},
		"hot":       `+folderOutput+`,
		"files":     {"type":"array","items":{"type":"object","properties":{
			"path":{"type":"string"},"count":{"type":"integer"},"invalidUTF8":{"const":true},
			"matches":{"type":"array","items":{"type":"object","properties":{
				"line":{"type":"integer"},"text":{"type":"string"},"cut":{"const":true},
				"before":{"type":"array","items":{"type":"string"}},"after":{"type":"array","items":{"type":"string"}}},
				"required":["line","text"],"additionalProperties":false}}},
			"required":["path","count","matches"],"additionalProperties":false}},
		`+pageOutput+`,
		`+skippedOutput),

	spec("fs.cat", "Read a text file, or lines of it, or one symbol. A binary file is a block.", []string{"path"}, `
		"path": {"type":"string"},
		"head": {"type":"integer","minimum":0,"description":"first lines"},
		"tail": {"type":"integer","minimum":0,"description":"last lines"},
		"from": {"type":"integer","minimum":1,"description":"first line"},
		"to":   {"type":"integer","minimum":1,"description":"last line"},
		"symbol":  {"type":"string","minLength":1,"description":"Go: Name or Type.Method; Markdown: a heading"},
		"outline": {"type":"boolean","description":"only the symbols and their lines"},
		`+digestInput, []string{"size"}, `
		"path":{"type":"string"},"size":{"type":"integer"},"mimeType":{"type":"string"},"data":{"type":"string"},
		"lines":{"type":"integer"},"from":{"type":"integer"},"to":{"type":"integer"},
		"encoding":{"enum":["utf-16le","utf-16be"]},"invalidUTF8":{"const":true},"binary":{"const":true},"type":{"type":"string"},
		"digest":{"type":"string"},
		`+pageOutput+`,
		"text":{"type":"string"},"syntaxError":{"type":"string"},
		"outline":{"type":"array","items":{"type":"object","properties":{
			"symbol":{"type":"string"},"from":{"type":"integer"},"to":{"type":"integer"},"level":{"type":"integer"},"text":{"type":"string"}},
			"required":["symbol","from","to"],"additionalProperties":false}}`),
}

// changeFunctions are the specs of the functions that change files.
var changeFunctions = []steps.Function{
	takingMarks(changeSpec("fs.write", "Write a whole file; its folder must exist.", []string{"path"}, `
		"path": {"type":"string"},
		"text": {"type":"string"},
		"data": {"type":"string","description":"base64, in place of text"},
		"mode": {"type":"string","pattern":"^[0-7]{3}$"},
		`+ifMatchInput+`,
		`+undoInput, []string{"path", "size", "digest"}, `
		"path":{"type":"string"},"size":{"type":"integer"},"digest":{"type":"string"},"created":{"const":true}`)),

	changeSpec("fs.edit", "Replace text in a file: old must occur count times.", []string{"path", "old", "new"}, `
		"path":  {"type":"string"},
		"old":   {"type":"string","minLength":1,"description":"exact text"},
		"new":   {"type":"string"},
		"count": {"type":"integer","minimum":1,"default":1},
		`+ifMatchInput, []string{"path", "size", "digest", "line"}, `
		"path":{"type":"string"},"size":{"type":"integer"},"digest":{"type":"string"},"line":{"type":"integer"}`),

	changeSpec("fs.move", "Move or rename a file or folder to a name that is free.", []string{"from", "to"}, `
		"from": {"type":"string"},
		"to":   {"type":"string"},
		`+ifMatchInput, []string{"from", "to"}, `
		"from":{"type":"string"},"to":{"type":"string"}`),

	removing(changeSpec("fs.remove", "Remove a file or an empty folder.", []string{"path"}, `
		"path": {"type":"string"},
		"upTo": {"type":"string","description":"a folder above: empty folders up to it too"},
		`+ifMatchInput+`,
		`+undoInput, []string{"removed"}, `
		"removed":{"type":"array","items":{"type":"string"}}`)),

	changeSpec("fs.mkdir", "Make a folder, and those above it.", []string{"path"}, `
		"path": {"type":"string"}`, []string{"path", "made"}, `
		"path":{"type":"string"},"made":{"type":"array","items":{"type":"string"}}`),
}

const (
	ifMatchInput = `"ifMatch":{"type":"string","description":"only if the digest is still this; none: only if there is no file"}`
	undoInput    = `"undo":{"const":"none","description":"keep nothing for an undo"}`
)

// changeSpec builds the spec of a function that writes.
func changeSpec(name, description string, required []string, input string, members []string, output string) steps.Function {
	f := spec(name, description, required, input, members, output)
	f.Effect, f.Idempotent = steps.Write, false
	return f
}

func removing(f steps.Function) steps.Function {
	f.Effect, f.Deletes = steps.Destroy, true
	return f
}

// takingMarks marks the spec of a function that takes the bytes of blocks without base64.
func takingMarks(f steps.Function) steps.Function {
	f.TakesMarks = true
	return f
}

const (
	pageInput = `"limit":{"type":"integer","minimum":1,"maximum":100000,"default":1000},
		"offset":{"type":"integer","minimum":0,"default":0}`
	filterInput = `"excludePatterns":{"type":"array","items":{"type":"string","minLength":1},"description":"globs"},
		"hidden":{"type":"boolean","description":"hidden files too"},
		"ignored":{"type":"boolean","description":"what .gitignore names too"}`
	folderOutput = `{"type":"object","properties":{"path":{"type":"string"},"count":{"type":"integer"}},
		"required":["path","count"],"additionalProperties":false}`
	digestInput   = `"digest":{"type":"boolean","description":"tells versions of a file apart"}`
	pageOutput    = `"truncated":{"const":true},"next":{"type":"integer"}`
	skippedOutput = `"skipped":{"type":"array","items":{"type":"object","properties":{
		"reason":{"enum":["binary","unreadable","long_line","too_deep","ignore_size"]},"count":{"type":"integer"},"example":{"type":"string"}},
		"required":["reason","count","example"],"additionalProperties":false}}`
)

// spec builds the spec of a function that reads. input and output are the properties of the arguments and of the result; required
// and members are their required names.
func spec(name, description string, required []string, input string, members []string, output string) steps.Function {
	return steps.Function{Spec: steps.Spec{
		Name:           name,
		Description:    description,
		Input:          object(input, required),
		Output:         object(output, members),
		Effect:         steps.Read,
		EffectDeclared: true,
		Idempotent:     true,
		Local:          true,
	}}
}

func object(properties string, required []string) json.RawMessage {
	schema := `{"type":"object","properties":{` + properties + `}`
	if required != nil {
		list, _ := json.Marshal(required)
		schema += `,"required":` + string(list)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(schema+`,"additionalProperties":false}`)); err != nil {
		panic(err) // the schemas are constants of this file
	}
	return b.Bytes()
}
