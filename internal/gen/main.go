// Command gen writes what the program knows about itself to the places that need it: JSON Schemas, the input schemas and manuals of
// the tools, the fields of a fetch as a list for package groups, which cannot import chain, and the reference in docs. The sources are
// the structs that the decoders read, with their tags and comments, the tables of codes and clients, and the tree of commands. It also
// fills the figures of the comparison into the documents that quote them.
package main

import (
	"log"
	"maps"
	"os"
	"path/filepath"
)

//go:generate go run .

func main() {
	const root = "../.."
	files, err := generate(root)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the generated files, by their paths below root.
func generate(root string) (map[string][]byte, error) {
	chain, err := parseStructs(filepath.Join(root, "chain/internal/plan"))
	if err != nil {
		return nil, err
	}
	mcp, err := parseStructs(filepath.Join(root, "mcp"))
	if err != nil {
		return nil, err
	}
	config, err := parseStructs(filepath.Join(root, "internal/config"))
	if err != nil {
		return nil, err
	}
	guide, err := readGuide(root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"mcp/instructions.txt":                  []byte(guide.instructions),
		"deploy/plugin/skills/onecall/SKILL.md": guide.skillFile(),
	}
	for name, content := range map[string]any{
		"chain/chain.schema.json": chainSchema(chain),
		"mcp/tools.json":          toolTexts(chain, mcp, guide),

		"internal/config/config.schema.json": configSchema(config),
	} {
		if files[name], err = indentJSON(content); err != nil {
			return nil, err
		}
	}
	for name, lists := range closedLists() {
		if files[name], err = fillLists(root, name, lists); err != nil {
			return nil, err
		}
	}
	files["docs/reference/answer.md"] = schemaReference("The members of an answer",
		"Generated from the published schema, `onecall schema answer`. [language.md](../language.md#answers) explains them. "+
			"A member that is not required is left out if it has nothing to say.", files["chain/answer.schema.json"])
	files["docs/reference/configuration.md"] = schemaReference("The keys of a configuration",
		"Generated from the published schema, `onecall schema config`. A key may be left out unless it is "+
			"required; `*` stands for any name.", files["internal/config/config.schema.json"])
	files["steps/groups/fetch_fields.go"] = fetchFields(chain)
	files["docs/reference/chain.md"] = schemaReference("The fields of a chain and of a fetch",
		"Generated from the published schema, `onecall schema chain`. [language.md](../language.md) explains them. `null` means "+
			"that the field is absent, except in `return` and `orElse` and for members of `common`.", files["chain/chain.schema.json"])
	argumentSchemas, err := indentJSON(toolArguments(mcp))
	if err != nil {
		return nil, err
	}
	files["docs/reference/tools.md"] = schemaReference("The arguments of search and info",
		"Generated from the types that are decoded. Those of `chain` are in [chain.md](chain.md), the answers in "+
			"[wire.md](../wire.md).", argumentSchemas)
	files["docs/reference/codes.md"] = codesReference()
	files["docs/reference/commands.md"] = commandsReference()
	pages, err := clientPages(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, pages)
	if files[comparisonPage], err = fillComparison(root); err != nil {
		return nil, err
	}
	if files["AGENTS.md"], err = agentsFile(root); err != nil {
		return nil, err
	}
	if err := fillQuotes(root, files); err != nil {
		return nil, err
	}
	files["llms.txt"], err = llmsFile(root, files)
	return files, err
}
