package main

import (
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/onecall-mcp/onecall/fault"
)

// toolArguments returns the schemas of the arguments of search and info, for their page.
func toolArguments(mcp structs) object {
	d := &schemaBuilder{structs: mcp, defs: map[string]*jsonschema.Schema{}}
	return object{{"$defs", object{
		{"search", d.structSchema(mcp.mustGet("searchArguments"))},
		{"info", d.structSchema(mcp.mustGet("infoArguments"))},
	}}}
}

// codesReference returns the page of the error codes: a table of all, then each with its causes and its remedy.
func codesReference() []byte {
	var b strings.Builder
	b.WriteString("# The error codes\n\nGenerated from the one table of codes. A released code is not renamed. *Exit* is the status of " +
		"the command line, *HTTP* that of an answer " +
		"over HTTP that is not a tool result;\n*again*: the same request may succeed when it is sent again.\n\n" +
		"| code | exit | HTTP | again | meaning |\n|---|---|---|---|---|\n")
	for _, code := range fault.Codes() {
		retryable := ""
		if code.Retryable() {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %d | %d | %s | %s |\n", code, code, code.Exit(), code.HTTP(), retryable, code.Help())
	}
	b.WriteString("\n## Causes and remedies\n\n" +
		"The message of an error names the cause at hand. These are the usual ones, the most frequent first.\n")
	for _, code := range fault.Codes() {
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n", code, capitalize(code.Help()))
		for _, cause := range code.Causes() {
			fmt.Fprintf(&b, "- %s\n", cause)
		}
		fmt.Fprintf(&b, "\n**What to do.** %s\n", code.Remedy())
	}
	return []byte(b.String())
}

func capitalize(sentence string) string { return strings.ToUpper(sentence[:1]) + sentence[1:] }
