package files

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// markdownOutline returns the sections of a Markdown text: each is a heading and what follows, up to the next heading that is not below it.
// Headings in quotes and lists begin none.
func markdownOutline(source []byte) ([]symbol, string) {
	lines, list := newLineNumbers(source), []symbol{}
	body := frontMatter(source)
	blocks := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)) // the text within blocks does not matter
	document := blocks.Parse(text.NewReader(source[body:]))
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		heading, ok := node.(*ast.Heading)
		if !ok || heading.Lines().Len() == 0 { // a heading without text has no name
			continue
		}
		name := strings.TrimSpace(string(heading.Lines().Value(source[body:])))
		list = append(list, symbol{Symbol: name, From: lines.at(body + heading.Lines().At(0).Start), Level: heading.Level})
	}
	for i := range list {
		list[i].To = countLines(source)
		for _, next := range list[i+1:] {
			if next.Level <= list[i].Level {
				list[i].To = next.From - 1
				break
			}
		}
	}
	return list, ""
}

// frontMatter returns where the text begins after a block of metadata between lines of "---"; 0: there is none.
func frontMatter(source []byte) int {
	const fence = "---"
	line, rest, _ := bytes.Cut(source, []byte("\n"))
	if strings.TrimRight(string(line), " \r") != fence {
		return 0
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if strings.TrimRight(string(line), " \r") == fence {
			return len(source) - len(rest)
		}
	}
	return 0
}
