package mcp

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// inherited are the variables that every server gets of onecall's environment. The clients that servers are written for
// hand on the first line only; the rest is what programs need to find temporary folders, to speak the user's language
// and to reach the network from behind a proxy. Nothing else is handed on: tokens of other programs stand there.
var inherited = strings.Fields(`
	HOME LOGNAME PATH SHELL TERM USER
	LANG LANGUAGE TZ TMPDIR TEMP TMP
	XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
	HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy
	SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS`)

// inheritedOnWindows are those that programs do not start without there.
var inheritedOnWindows = strings.Fields(`
	APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE
	SYSTEMROOT USERNAME USERPROFILE`)

// environ is the environment of a server: the inherited variables, and over them those of the configuration.
func environ(env map[string]string, lookup func(string) (string, bool), all []string) []string {
	merged := map[string]string{}
	names := inherited
	if runtime.GOOS == "windows" {
		names = append(slices.Clone(names), inheritedOnWindows...)
	}
	for _, name := range names {
		// A value that begins with () is a function of a shell, which some shells would run.
		if value, ok := lookup(name); ok && !strings.HasPrefix(value, "()") {
			merged[name] = value
		}
	}
	for _, pair := range all {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "LC_") {
			merged[name] = value
		}
	}
	maps.Copy(merged, env)
	pairs := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		pairs = append(pairs, name+"="+merged[name])
	}
	return pairs
}

// command makes the command of the options. Its program is looked up where the server itself would look. Behind the folders of
// onecall's own PATH the server finds the user's programs, and those beside its own: many a command is a script for one of them.
func command(o *Options) *exec.Cmd {
	cmd := exec.Command(o.Command, o.Args...)
	path, own := o.Env["PATH"]
	if !own {
		path = completePath(os.Getenv("PATH"), runtime.GOOS, os.Getenv("HOME"))
	}
	if filepath.IsAbs(o.Command) {
		path = withFolder(path, filepath.Dir(o.Command))
	}
	if found := lookUp(o.Command, path, ""); found != "" && filepath.Base(o.Command) == o.Command {
		cmd.Path, cmd.Err = found, nil
	}
	cmd.Dir = o.Dir
	cmd.Env = environ(o.Env, func(name string) (string, bool) {
		if name == "PATH" {
			return path, path != ""
		}
		return os.LookupEnv(name)
	}, os.Environ())
	return cmd
}
