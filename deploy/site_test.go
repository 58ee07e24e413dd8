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

// TestSite builds the site and follows each of its links: the file is there, and so is the place in it. Nothing in a page comes from
// elsewhere.
func TestSite(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("hugo"); err != nil {
		t.Skip("hugo is not installed")
	}
	site := t.TempDir()
	// Its own cache: builds that run side by side share nothing.
	build := exec.Command("hugo", "--source", "site", "--destination", site, "--cacheDir", t.TempDir(), "--panicOnWarning", "--noBuildLock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages := builtPages(t, site)
	if len(pages) < 50 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, pattern := range []string{"*.css", "*.js"} {
		files, err := filepath.Glob(filepath.Join("site", "static", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "://") {
				t.Errorf("%s names an address, %v", file, err)
			}
		}
	}
	for name, text := range pages {
		if strings.Contains(text, "```") {
			t.Errorf("%s shows a fence as text", name)
		}
		for _, match := range regexp.MustCompile(`<(\w+)\s[^<>]*?\b(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if problem := followed(match[1], match[2], name, site, pages); problem != "" {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
}

// builtPages are the texts of all pages, by their paths below the site.
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

// followed tells what is wrong with a link of a page, "" if nothing is. element is that which has it.
func followed(element, link, page, site string, pages map[string]string) (problem string) {
	to, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case to.Scheme == "data", to.Scheme != "" && element == "a":
		return ""
	case to.Scheme != "" || strings.HasPrefix(link, "/"):
		return link + " does not begin at the page: the site may stand under any address"
	}
	target := page
	if to.Path != "" {
		target = path.Join(path.Dir(page), to.Path)
	}
	if strings.HasSuffix(to.Path, "/") {
		target = path.Join(target, "index.html")
	}
	if _, err := os.Stat(filepath.Join(site, target)); err != nil {
		return link + " leads nowhere"
	}
	if to.Fragment != "" && !strings.Contains(pages[target], `id="`+to.Fragment+`"`) {
		return link + " leads to a place that is not there"
	}
	return ""
}
