package main

import (
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/onecall-mcp/onecall/fault"
)

// arguments are the schemas of what the tools beside chain take, for their page.
func arguments(mcp source) members {
	d := &document{source: mcp, defs: map[string]*jsonschema.Schema{}}
	return members{{"$defs", members{
		{"search", d.closed(mcp.object("searchArguments"))},
		{"info", d.closed(mcp.object("infoArguments"))},
	}}}
}

// codesReference is the page of the error codes.
func codesReference() []byte {
	var b strings.Builder
	b.WriteString("# The error codes\n\nGenerated from the one table of codes. A released code is not renamed. *Exit* is the status of the command line, *HTTP* that of an answer " +
		"over HTTP that is no tool result;\n*again*: the same request may succeed when it is sent again.\n\n| code | exit | HTTP | again | meaning |\n|---|---|---|---|---|\n")
	for _, code := range fault.Codes() {
		again := ""
		if code.Retryable() {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", code, code.Exit(), code.HTTP(), again, code.Help())
	}
	return []byte(b.String())
}
