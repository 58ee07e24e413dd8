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

// documents is where a page of the repository is read as Markdown.
const documents = "https://raw.githubusercontent.com/onecall-mcp/onecall/main/"

// llms is llms.txt, the list of all documents for agents (https://llmstxt.org): the title of each and its first sentence. made are
// pages that are generated with it.
func llms(root string, made map[string][]byte) ([]byte, error) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	title, summary := opening(readme)
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
			if made[name] != nil {
				text = made[name]
			}
			title, says := opening(text)
			fmt.Fprintf(&b, "- [%s](%s%s)", title, documents, name)
			if says != "" {
				fmt.Fprintf(&b, ": %s", says)
			}
			b.WriteByte('\n')
		}
	}
	const decisions = "https://github.com/onecall-mcp/onecall/tree/main/docs/decisions"
	fmt.Fprintf(&b, "\n## Optional\n\n- [Decisions](%s): what was chosen, and what was refused\n", decisions)
	return b.Bytes(), nil
}

// opening is the title of a page, and the first sentence of its first paragraph without markup; "" if the page begins with something else.
func opening(page []byte) (title, sentence string) {
	head, rest, _ := strings.Cut(string(page), "\n\n")
	first, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	if strings.HasPrefix(first, "<") || strings.HasPrefix(first, "```") || named.MatchString(first) {
		return strings.TrimPrefix(head, "# "), ""
	}
	text := strings.ReplaceAll(linked.ReplaceAllString(first, "$1"), "**", "")
	text = strings.Join(strings.Fields(text), " ")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		text = text[:end[0]+1]
	}
	return strings.TrimPrefix(head, "# "), text
}

var (
	named       = regexp.MustCompile("^`[^` ]+`$") // the name of a file
	linked      = regexp.MustCompile(`!?\[([^]]*)\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile("[.:] ([A-Z`]|onecall)")
)
