package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// appOf is an app as far as it is known by its configuration.
func appOf(t *testing.T, text string, u use) *app {
	t.Helper()
	c, faults := config.Parse("onecall.yaml", []byte(text), os.LookupEnv)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return &app{config: c, use: u}
}

// TestNeedsRestart: what is not carried out is told of for as long as it is so, compared with what the server was started with.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	remote := use{serve: true, anySurface: true}
	for _, c := range []struct {
		use                use
		began, before, now string
		want               []string
	}{
		{remote, "{}", "{}", "session: {timeout: 1m}", []string{"/session/timeout"}},
		{remote, "{}", "session: {timeout: 1m}", "session: {timeout: 1m}\nlite: true", []string{"/session/timeout"}},
		{remote, "session: {timeout: 2m}", "session: {timeout: 1m}", "session: {timeout: 2m}", nil},
		{remote, "{}", "{}", "session: {maxTokens: 5}\naccess: {stdio: read}", nil},
		{use{serve: true}, "{}", "access: {stdio: read}", "access: {stdio: read}\nsession: {timeout: 1m}", []string{"/access/stdio"}},
	} {
		r := &reloader{app: appOf(t, c.before, c.use), began: &appOf(t, c.began, c.use).config.Config}
		if got := r.compare(appOf(t, c.now, c.use)).later; !slices.Equal(got, c.want) {
			t.Errorf("%q, then %q, then %q: %q needs a restart, want %q", c.began, c.before, c.now, got, c.want)
		}
	}
}

// TestUrgent: what takes something from calls waits for no source.
func TestUrgent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"lite: true": true, // a server is gone
		"mcpServers: {a: {command: x}}\nlite: true":                                                           false,
		"mcpServers: {a: {command: x, disabled: true}}":                                                       true,
		"mcpServers: {a: {command: x}, b: {command: y}}":                                                      false,
		"mcpServers: {a: {command: x, env: {K: '2'}}}":                                                        false,
		"mcpServers: {a: {command: x}}\nopenapi: {b: {spec: x}}":                                              false,
		"functions: {fs.*: {tier: admin}}":                                                                    true,
		"functions: {fs.list: {hide: true}}":                                                                  true,
		"http: {allow: [a.example]}":                                                                          true,
		"mcpServers: {a: {command: x}}\nhttp: {rate: {perSecond: 5}}":                                         false,
		"mcpServers: {a: {command: x}}\nhttp: {endpoints: {e.get: {method: GET, url: 'https://a.example/'}}}": true,
		"fs: {root: sub}": true,
		"mcpServers: {a: {command: x, excludeTools: [t]}}":                         true,
		"mcpServers: {a: {command: x}}\nopenapi: {b: {spec: x, include: ['c.*']}}": false, // it was not there
	} {
		r := &reloader{app: appOf(t, "mcpServers: {a: {command: x}}", use{}), began: &config.Config{}}
		if got := r.compare(appOf(t, text+"\n", use{})).urgent(); got != want {
			t.Errorf("%s: urgent is %v", text, got)
		}
	}
}

// TestKeptResults: what was kept is there where it lies.
func TestKeptResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{"{}", "results: {store: memory, ttl: 1h, pageSize: 5}", true},
		{"{}", "results: {maxBytes: 5MB}", true},
		{"{}", "results: {store: disk}", false},
		{"results: {store: disk}", "results: {store: disk, maxBytes: 5MB}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: 'redis://h/1', maxBytes: 5MB}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: 'redis://h/2'}", false},
		{"results: {store: 'redis://u:one@h/1'}", "results: {store: 'redis://u:two@h/1'}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: memory}", false},
	} {
		if got := keeps(&appOf(t, c.after, use{}).config.Results, &appOf(t, c.before, use{}).config.Results); got != c.want {
			t.Errorf("%s, then %s: kept is %v", c.before, c.after, got)
		}
	}
}

// TestAwait: new sources are waited for until they are there, the time is over, or the configuration is to be loaded again.
func TestAwait(t *testing.T) {
	t.Parallel()
	catalog := func(t *testing.T, state steps.State) *steps.Catalog {
		c, err := steps.NewCatalog(nil)
		if err == nil {
			err = c.Add("s", absent{steps.Status{State: state}})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for name, c := range map[string]struct {
		state steps.State
		do    func(r *reloader, path string)
		want  time.Duration
	}{
		"it is there":      {steps.StateReady, func(*reloader, string) {}, 0},
		"it never comes":   {steps.StateStarting, func(*reloader, string) {}, newcomers},
		"a signal":         {steps.StateStarting, func(r *reloader, _ string) { r.hangups <- os.Interrupt }, 0},
		"the file changes": {steps.StateStarting, func(_ *reloader, path string) { _ = os.WriteFile(path, []byte("{}"), 0o600) }, lookEvery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "onecall.yaml", "lite: true\n")
			synctest.Test(t, func(t *testing.T) {
				r := &reloader{instance: &instance{hangups: make(chan os.Signal, 1)}}
				next := &app{catalog: catalog(t, c.state), config: &config.File{Path: path}, seen: r.digests.see(path, nil)}
				c.do(r, path)
				began := time.Now()
				signals := len(r.hangups)
				if r.await(context.Background(), next); time.Since(began) != c.want {
					t.Errorf("it waits %v, want %v", time.Since(began), c.want)
				}
				if len(r.hangups) != signals {
					t.Error("the signal is not heard any more")
				}
			})
		})
	}
}

// TestLacking: an empty configuration is not loaded; that it is, is found out when it has changed, and not each second.
func TestLacking(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := write(t, folder, "onecall.yaml", " \n\t\n")
	old := time.Now().Add(-time.Hour)
	age := func() {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	age()
	d := &digests{}
	empty := path + " is empty (for a configuration that says nothing write {})"
	if got := d.lacking(path); got != empty {
		t.Errorf("of blanks: %q", got)
	}
	write(t, folder, "onecall.yaml", "a: 1")
	age()
	if got := d.lacking(path); got != empty {
		t.Errorf("a file of the same size and time is read again: %q", got)
	}
	write(t, folder, "onecall.yaml", "lite: true\n")
	if got := d.lacking(path); got != "" {
		t.Errorf("it was written: %q", got)
	}
	write(t, folder, "onecall.yaml", "lite: true\n"+strings.Repeat(" ", 100_000))
	if got := d.lacking(path); got != "" {
		t.Errorf("blanks follow: %q", got)
	}
	write(t, folder, "onecall.yaml", "")
	if got := d.lacking(path); got != empty {
		t.Errorf("of nothing: %q", got)
	}
	if got := d.lacking(folder); got != folder+" is no regular file, and cannot be read again" {
		t.Errorf("a folder: %q", got)
	}
}

// TestNotifierIsAlone: what the process starts does not speak to its service manager.
func TestNotifierIsAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	notifier()("READY=1")
	if socket, there := os.LookupEnv("NOTIFY_SOCKET"); there {
		t.Errorf("NOTIFY_SOCKET is %q after it was read", socket)
	}
}
