package deploy

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSite builds the site and checks that each link leads to an existing file and anchor, and that pages load nothing from other
// sites.
func TestSite(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("hugo"); err != nil {
		t.Skip("hugo is not installed")
	}
	site := t.TempDir()
	// Parallel builds must not share a cache.
	build := exec.Command("hugo", "--source", "site", "--destination", site, "--cacheDir", t.TempDir(), "--panicOnWarning", "--noBuildLock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("hugo: %v\n%s", err, out)
	}
	pages := builtPages(t, site)
	if len(pages) < 50 {
		t.Fatalf("%d pages, want at least 50", len(pages))
	}
	for _, pattern := range []string{"*.css", "*.js"} {
		files, err := filepath.Glob(filepath.Join("site", "static", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches %v, %v, want a file", pattern, files, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "://") {
				t.Errorf("%s contains a URL, or cannot be read: %v", file, err)
			}
		}
	}
	for name, text := range pages {
		if strings.Contains(text, "```") {
			t.Errorf("%s shows a code fence as text", name)
		}
		for _, match := range regexp.MustCompile(`<(\w+)\s[^<>]*?\b(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if problem := linkProblem(match[1], match[2], name, site, pages); problem != "" {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
}

// builtPages returns the HTML of all pages, by their paths in the site.
func builtPages(t *testing.T, site string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(site, name))
		pages[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// linkProblem returns what is wrong with a link of a page, "" if nothing is. element is the HTML element that has the link.
func linkProblem(element, link, page, site string, pages map[string]string) (problem string) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "data", u.Scheme != "" && element == "a":
		return ""
	case u.Scheme != "" || strings.HasPrefix(link, "/"):
		return link + " is not relative to the page, but the site may be served under any path"
	}
	target := page
	if u.Path != "" {
		target = path.Join(path.Dir(page), u.Path)
	}
	if strings.HasSuffix(u.Path, "/") {
		target = path.Join(target, "index.html")
	}
	if _, err := os.Stat(filepath.Join(site, target)); err != nil {
		return link + " leads to a missing file"
	}
	if u.Fragment != "" && !strings.Contains(pages[target], `id="`+u.Fragment+`"`) {
		return link + " leads to a missing anchor"
	}
	return ""
}
