//go:build e2e

package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// nodePlatform returns this machine's platform as the name of its npm package spells it, such as linux-x64; "" if there is no package for
// it.
func nodePlatform() string {
	for _, p := range platforms {
		if p.goos == runtime.GOOS && p.goarch == runtime.GOARCH {
			return p.os + "-" + p.cpu
		}
	}
	return ""
}

// packRelease packs the npm packages of a release and returns the paths of the tarballs by package name. Only the program for this machine
// is real; the others are fakes.
func packRelease(t *testing.T) (tarballs map[string]string) {
	t.Helper()
	dist := newDist(t)
	built := filepath.Join(dist, "built")
	if err := build(built); err != nil {
		t.Fatal(err)
	}
	var fake, local []artifact
	if err := readJSON(filepath.Join(built, artifactsFile), &local); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(filepath.Join(dist, artifactsFile), &fake); err != nil {
		t.Fatal(err)
	}
	// Of several programs for a platform the first is used, so the real one goes before the fake one.
	if err := writeJSON(filepath.Join(dist, artifactsFile), append(local, fake...)); err != nil {
		t.Fatal(err)
	}
	tarballs = map[string]string{}
	for folder, manifest := range packages(t, dist) {
		pack := exec.Command("npm", "pack", "--loglevel=error", "--pack-destination", dist)
		pack.Dir = filepath.Join(dist, "npm", folder)
		pack.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := pack.Output()
		if err != nil {
			t.Fatalf("npm pack: %v", err)
		}
		tarballs[manifest.Name] = filepath.Join(dist, strings.TrimSpace(string(out)))
	}
	return tarballs
}

// npmUser runs commands in a new folder, with an empty home and the npm registry of the test.
type npmUser struct {
	folder   string
	env      []string
	registry *npmRegistry
}

func newNPMUser(t *testing.T, tarballs map[string]string) npmUser {
	t.Helper()
	user := npmUser{folder: t.TempDir(), registry: newNPMRegistry(t, tarballs)}
	server := httptest.NewServer(user.registry)
	t.Cleanup(server.Close)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(strings.ToLower(variable), "npm_config_") {
			user.env = append(user.env, variable)
		}
	}
	user.env = append(user.env, "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "npm_config_registry="+server.URL,
		"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
	// Without this file, npm looks for a project in the parent folders.
	if err := write(filepath.Join(user.folder, "package.json"), `{"private": true}`, plain); err != nil {
		t.Fatal(err)
	}
	return user
}

// command returns a command that is killed after five minutes.
func (u npmUser) command(t *testing.T, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = u.folder, u.env
	return command
}

// npmRegistry is an npm registry with one version of each package.
type npmRegistry struct {
	manifests map[string]map[string]any // the decoded package.json files, by package name
	contents  map[string][]byte         // the contents of the tarballs, by file name

	mu      sync.Mutex
	fetched map[string]bool // the file names of the tarballs that were fetched
}

func newNPMRegistry(t *testing.T, tarballs map[string]string) *npmRegistry {
	t.Helper()
	registry := &npmRegistry{manifests: map[string]map[string]any{}, contents: map[string][]byte{}, fetched: map[string]bool{}}
	for name, tarball := range tarballs {
		content, err := os.ReadFile(tarball)
		if err != nil {
			t.Fatal(err)
		}
		text, err := exec.Command("tar", "-xOzf", tarball, "package/package.json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var manifest map[string]any
		if err := json.Unmarshal(text, &manifest); err != nil {
			t.Fatal(err)
		}
		sum := sha512.Sum512(content)
		manifest["dist"] = map[string]string{"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			"tarball": filepath.Base(tarball)}
		registry.manifests[name], registry.contents[filepath.Base(tarball)] = manifest, content
	}
	return registry
}

func (n *npmRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const tarballs = "/tarballs/"
	if tarball, ok := strings.CutPrefix(r.URL.Path, tarballs); ok {
		n.mu.Lock()
		n.fetched[tarball] = true
		n.mu.Unlock()
		_, _ = w.Write(n.contents[tarball])
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	manifest, ok := n.manifests[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	served := maps.Clone(manifest) // to be sent with the URL of its tarball
	dist := maps.Clone(manifest["dist"].(map[string]string))
	dist["tarball"] = "http://" + r.Host + tarballs + dist["tarball"]
	served["dist"] = dist
	version := manifest["version"].(string)
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": version},
		"versions": map[string]any{version: served}})
}

func (n *npmRegistry) fetchedTarballs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.fetched))
}
