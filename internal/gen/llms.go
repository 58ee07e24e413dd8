package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// llmsSections are the sections of llms.txt, and the folders whose pages they list.
var llmsSections = []struct{ heading, folder string }{
	{"Documents", "docs"},
	{"Clients", "docs/clients"},
	{"Cookbook", "docs/cookbook"},
	{"Reference", "docs/reference"},
}

// rawURL is the folder of the repository's pages as Markdown.
const rawURL = "https://raw.githubusercontent.com/onecall-mcp/onecall/main/"

// llmsFile returns llms.txt, the list of all documents for agents (https://llmstxt.org): the title of each and its first sentence.
// generated holds the pages that are generated in the same run.
func llmsFile(root string, generated map[string][]byte) ([]byte, error) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	title, summary := titleAndSummary(readme)
	fmt.Fprintf(&b, "# %s\n\n> %s\n", title, summary)
	for _, section := range llmsSections {
		pages, err := filepath.Glob(filepath.Join(root, section.folder, "*.md"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s\n\n", section.heading)
		for _, page := range pages {
			name, err := filepath.Rel(root, page)
			if err != nil {
				return nil, err
			}
			name = filepath.ToSlash(name)
			text, err := os.ReadFile(page)
			if err != nil {
				return nil, err
			}
			if generated[name] != nil {
				text = generated[name]
			}
			title, summary := titleAndSummary(text)
			fmt.Fprintf(&b, "- [%s](%s%s)", title, rawURL, name)
			if summary != "" {
				fmt.Fprintf(&b, ": %s", summary)
			}
			b.WriteByte('\n')
		}
	}
	const decisions = "https://github.com/onecall-mcp/onecall/tree/main/docs/decisions"
	fmt.Fprintf(&b, "\n## Optional\n\n- [Decisions](%s): what was chosen, and what was refused\n", decisions)
	return b.Bytes(), nil
}

// titleAndSummary returns the title of a page and the first sentence of its first paragraph, without markup. The sentence is "" if
// something else than a paragraph follows the title.
func titleAndSummary(page []byte) (title, sentence string) {
	head, rest, _ := strings.Cut(string(page), "\n\n")
	first, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	if strings.HasPrefix(first, "<") || strings.HasPrefix(first, "```") || fileNameOnly.MatchString(first) {
		return strings.TrimPrefix(head, "# "), ""
	}
	text := strings.ReplaceAll(markdownLink.ReplaceAllString(first, "$1"), "**", "")
	text = strings.Join(strings.Fields(text), " ")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		text = text[:end[0]+1]
	}
	return strings.TrimPrefix(head, "# "), text
}

var (
	fileNameOnly = regexp.MustCompile("^`[^` ]+`$") // a paragraph that is only the name of a file
	markdownLink = regexp.MustCompile(`!?\[([^]]*)\]\([^)]*\)`)
	sentenceEnd  = regexp.MustCompile("[.:] ([A-Z`]|onecall)")
)
