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

// inherited are the variables that every server inherits from onecall. Other MCP clients pass on only the variables of the first line;
// programs need the rest to find temporary folders, to use the user's language, and to reach the network through a proxy. Nothing
// else is inherited, except the LC_ variables, because other programs keep tokens in their variables.
var inherited = strings.Fields(`
	HOME LOGNAME PATH SHELL TERM USER
	LANG LANGUAGE TZ TMPDIR TEMP TMP
	XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
	HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy
	SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS`)

// inheritedOnWindows are further variables that Windows programs need to start.
var inheritedOnWindows = strings.Fields(`
	APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE
	SYSTEMROOT USERNAME USERPROFILE`)

// environ returns a server's environment: the inherited variables, overridden by the configured ones.
func environ(env map[string]string, lookup func(string) (string, bool), variables []string) []string {
	merged := map[string]string{}
	names := inherited
	if runtime.GOOS == "windows" {
		names = append(slices.Clone(names), inheritedOnWindows...)
	}
	for _, name := range names {
		// A value that starts with () is a shell function, which some shells would run.
		if value, ok := lookup(name); ok && !strings.HasPrefix(value, "()") {
			merged[name] = value
		}
	}
	for _, pair := range variables {
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

// command returns the command of the options. The server's PATH is that of Env, or else onecall's PATH extended by the user's program
// folders. It also contains the folder of an absolute command: many commands are scripts for a program next to them.
func command(o *Options) *exec.Cmd {
	cmd := exec.Command(o.Command, o.Args...)
	path, configured := o.Env["PATH"]
	if !configured {
		path = completePath(os.Getenv("PATH"), runtime.GOOS, os.Getenv("HOME"))
	}
	if filepath.IsAbs(o.Command) {
		path = withFolder(path, filepath.Dir(o.Command))
	}
	if filepath.Base(o.Command) == o.Command { // exec.Command looked in onecall's own PATH
		if cmd.Path, cmd.Err = lookUp(o.Command, path, ""), nil; cmd.Path == "" {
			cmd.Err = &exec.Error{Name: o.Command, Err: exec.ErrNotFound}
		}
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
