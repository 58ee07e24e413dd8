package clients

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// plan plans an installation with the configuration in the home.
func (l *layout) plan(t *testing.T) *Plan {
	t.Helper()
	p, err := l.machine.install(l.client, filepath.Join(l.machine.home, "onecall", "onecall.yaml"), "/usr/local/bin/onecall",
		func(name string) (string, bool) {
			return "set-for-the-test", name != "GITHUB_TOKEN"
		})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t *testing.T, p *Plan) {
	t.Helper()
	if err := p.Apply(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (l *layout) uninstall(t *testing.T) *Plan {
	t.Helper()
	p, err := l.machine.uninstall(l.client)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files returns the texts of all files in the home, by their paths below it.
func (l *layout) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(l.machine.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(l.machine.home, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLayoutsAreInstalled installs onecall in each layout and removes it: each file is then as before, byte for byte.
func TestLayoutsAreInstalled(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, l *layout) {
		before := l.files(t)
		p := l.plan(t)
		report := string(p.Report())
		if strings.Contains(report, "literal-secret") {
			t.Errorf("the report shows a secret:\n%s", report)
		}
		l.golden(t, "install/report", report)
		if after := l.files(t); len(after) != len(before) {
			t.Errorf("planning wrote %d files, want 0", len(after)-len(before))
		}
		apply(t, p)
		text, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		l.golden(t, "install/"+filepath.Base(p.file), string(text))
		configuration := l.files(t)["onecall/onecall.yaml"]
		l.golden(t, "install/onecall.yaml", configuration)
		if again := l.plan(t); !again.Empty() {
			t.Errorf("a second installation has changes, want none:\n%s", again.Report())
		}

		apply(t, l.uninstall(t))
		after := l.files(t)
		delete(after, "onecall/onecall.yaml")
		for name, text := range before {
			if after[name] != text {
				t.Errorf("%s is not restored: it was\n%s\ngot\n%s", name, text, after[name])
			}
			delete(after, name)
		}
		for name := range after {
			t.Errorf("%s is left after the uninstallation", name)
		}
	})
}

// TestLayoutsWithLaterEdits installs onecall in each layout, changes the file as its user would, installs again, and removes onecall:
// the former entries are restored, and the user's change stays.
func TestLayoutsWithLaterEdits(t *testing.T) {
	t.Parallel()
	eachLayout(t, func(t *testing.T, l *layout) {
		p := l.plan(t)
		before := entriesOf(t, p.file, l.client)
		apply(t, p)
		later := openDocument(formatOf(p.file), l.client.servers.path, readText(t, p.file))
		if err := later.insert(later.render("later", l.client.fields("later", []string{"x"}))); err != nil {
			t.Fatal(err)
		}
		seed(t, p.file, string(later.bytes()))
		before["later"] = entriesOf(t, p.file, l.client)["later"]

		apply(t, l.plan(t))
		if now := entriesOf(t, p.file, l.client); now["later"] != "" || now["onecall"] == "" {
			t.Errorf("the client's file still has the later server, or lacks onecall: %v", now)
		}
		if text := l.files(t)["onecall/onecall.yaml"]; !strings.Contains(text, "\n  later:\n") {
			t.Errorf("the configuration lacks the later server:\n%s", text)
		}
		if gjson.Valid(before["later"]) { // JSON: a change of something else
			seed(t, p.file, strings.Replace(string(readText(t, p.file)), "{", "{\"ofTheUser\": 1.10,", 1))
		}
		apply(t, l.uninstall(t))
		now := entriesOf(t, p.file, l.client)
		for name, text := range before {
			if !sameJSON(now[name], text) {
				t.Errorf("entry %s is not restored: it was %s, got %s", name, text, now[name])
			}
		}
		if len(now) != len(before) {
			t.Errorf("%d servers after the uninstallation, want %d", len(now), len(before))
		}
		if text := string(readText(t, p.file)); formatOf(p.file) == jsonFormat && !strings.Contains(text, `"ofTheUser": 1.10`) {
			t.Errorf("the user's change is lost:\n%s", text)
		}
	})
}

func readText(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// entriesOf returns the servers of a client's file as JSON, by name.
func entriesOf(t *testing.T, path string, c *Client) map[string]string {
	t.Helper()
	object, err := formatOf(path).json(readText(t, path))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, server := range ordered(gjson.GetBytes(object, strings.Join(c.servers.path, "."))) {
		all[name] = server.Raw
	}
	return all
}
