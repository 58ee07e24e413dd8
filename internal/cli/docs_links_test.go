package cli_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLinks checks the links in all Markdown files of the repository. The file or folder must exist, and so must the heading, in
// GitHub's spelling. Each page of docs must be reachable from the README. Pages are named by links, not by paths in backticks.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := markdownPages(t)
	if len(pages) < 50 {
		t.Fatalf("found %d pages, want at least 50", len(pages))
	}
	for name, page := range pages {
		for _, problem := range page.problems(pages, name) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	reached := map[string]bool{}
	reach(pages, "README.md", reached)
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("%s: not reachable by links from the README", name)
		}
	}
}

// markdownPage has the targets and the links of a page. text has no fenced code.
type markdownPage struct {
	text     string
	headings []string
}

const repositoryRoot = "../.."

func markdownPages(t *testing.T) map[string]*markdownPage {
	t.Helper()
	pages := map[string]*markdownPage{}
	err := fs.WalkDir(os.DirFS(repositoryRoot), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "node_modules", "dist", "build"}, entry.Name()) {
			return fs.SkipDir
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(repositoryRoot, name))
		pages[name] = newMarkdownPage(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func newMarkdownPage(text string) *markdownPage {
	page := &markdownPage{text: fencedCode.ReplaceAllString(text, "")}
	seen := map[string]int{}
	for _, heading := range markdownHeading.FindAllStringSubmatch(page.text, -1) {
		slug := headingSlug(heading[1])
		if n := seen[slug]; n > 0 {
			page.headings = append(page.headings, fmt.Sprintf("%s-%d", slug, n))
		} else {
			page.headings = append(page.headings, slug)
		}
		seen[slug]++
	}
	return page
}

var (
	fencedCode      = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan        = regexp.MustCompile("`[^`\n]+`")
	markdownHeading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	markdownLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	pageInBackticks = regexp.MustCompile("`(?:docs|decisions|reference|clients|cookbook)/[a-z0-9/-]+\\.md`")
)

// headingSlug returns the anchor that GitHub gives a heading.
func headingSlug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1"))
}

// links returns the page's links within the repository: the file and the heading of each.
func (p *markdownPage) links(from string) (targets [][2]string) {
	for _, match := range markdownLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.text, ""), -1) {
		to, err := url.Parse(match[1])
		if err != nil || to.Scheme != "" {
			continue
		}
		target := from
		if to.Path != "" {
			target = path.Join(path.Dir(from), to.Path)
		}
		targets = append(targets, [2]string{target, to.Fragment})
	}
	return targets
}

func (p *markdownPage) problems(pages map[string]*markdownPage, name string) (problems []string) {
	for _, anchor := range p.links(name) {
		target, heading := anchor[0], anchor[1]
		if _, err := os.Stat(filepath.Join(repositoryRoot, target)); err != nil {
			problems = append(problems, "a link leads to "+target+", which does not exist")
		} else if heading != "" && (pages[target] == nil || !slices.Contains(pages[target].headings, heading)) {
			problems = append(problems, "a link leads to #"+heading+" of "+target+", which has no such heading")
		}
	}
	for _, mention := range pageInBackticks.FindAllString(p.text, -1) {
		problems = append(problems, mention+" is not a link")
	}
	return problems
}

// reach records the pages that links lead to.
func reach(pages map[string]*markdownPage, name string, reached map[string]bool) {
	if pages[name] == nil || reached[name] {
		return
	}
	reached[name] = true
	for _, anchor := range pages[name].links(name) {
		reach(pages, anchor[0], reached)
		reach(pages, path.Join(anchor[0], "README.md"), reached)
	}
}
