package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// templates holds the files that packages are made from. $VERSION in them stands for the release's version.
//
//go:embed npm mcpb server.json
var templates embed.FS

// platform is an operating system and architecture that onecall is released for, with the names that Go and Node.js use.
type platform struct {
	goos, goarch string
	os, cpu      string
}

var platforms = []platform{
	{"linux", "amd64", "linux", "x64"},
	{"linux", "arm64", "linux", "arm64"},
	{"darwin", "amd64", "darwin", "x64"},
	{"darwin", "arm64", "darwin", "arm64"},
	{"windows", "amd64", "win32", "x64"},
	{"windows", "arm64", "win32", "arm64"},
}

// npm writes a folder for each package into DIST/npm: one for each program that was built, and "onecall", which depends on them and starts
// the one that npm has installed. No package has an install script.
func npm(folder string) error {
	dist, err := readDistribution(folder)
	if err != nil {
		return err
	}
	out := filepath.Join(folder, "npm")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	var mainManifest map[string]any
	if err := json.Unmarshal([]byte(dist.template("npm/package.json")), &mainManifest); err != nil {
		return err
	}
	optional := map[string]string{}
	for _, p := range platforms {
		program, ok := dist.program(p.goos, p.goarch)
		if !ok {
			continue
		}
		name := fmt.Sprintf("%s-%s-%s", mainManifest["name"], p.os, p.cpu)
		if err := writePlatformPackage(filepath.Join(out, "onecall-"+p.os+"-"+p.cpu), name, program, p, mainManifest); err != nil {
			return err
		}
		optional[name] = dist.version
	}
	if len(optional) == 0 {
		return fmt.Errorf("%s lists no program for a package", filepath.Join(folder, artifactsFile))
	}
	mainManifest["optionalDependencies"] = optional
	return writeMainPackage(filepath.Join(out, "onecall"), mainManifest, dist)
}

// writePlatformPackage writes the package that holds the program for one platform.
func writePlatformPackage(folder, name, program string, p platform, mainManifest map[string]any) error {
	manifest := map[string]any{"name": name, "os": []string{p.os}, "cpu": []string{p.cpu}, "files": []string{"bin"},
		"description": "The onecall program for " + p.os + " on " + p.cpu + ". Install " + mainManifest["name"].(string) + "."}
	for _, key := range []string{"version", "license", "homepage", "repository", "bugs", "publishConfig"} {
		manifest[key] = mainManifest[key]
	}
	if err := copyFile(filepath.Join(folder, "bin", "onecall"+extension(p.goos)), program, executable); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(folder, "LICENSE"), "LICENSE", plain); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, "package.json"), manifest)
}

// writeMainPackage writes the package that users install. It holds no program, only a script that starts the program in a
// platform's package.
func writeMainPackage(folder string, manifest map[string]any, dist distribution) error {
	if err := write(filepath.Join(folder, "bin", "onecall.js"), dist.template("npm/onecall.js"), executable); err != nil {
		return err
	}
	if err := write(filepath.Join(folder, "README.md"), dist.template("npm/README.md"), plain); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(folder, "LICENSE"), "LICENSE", plain); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, "package.json"), manifest)
}

// template returns a file of templates, with this distribution's version filled in.
func (d distribution) template(name string) string {
	text, err := fs.ReadFile(templates, name)
	if err != nil {
		panic(err) // it is embedded
	}
	return strings.ReplaceAll(string(text), "$VERSION", d.version)
}
