package clients

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// runners are programs that run another program: always, or only if one of the words listed here follows.
var runners = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "uvx": nil, "env": nil, "sudo": nil, "nohup": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx", "exec", "x"}, "yarn": {"dlx", "exec"}, "bun": {"x"}, "go": {"run", "tool"}, "pipx": {"run"},
	"cmd": {"/c"},
}

// runnerFlags are flags of runners that take a value.
var runnerFlags = map[string]bool{"-p": true, "--package": true, "--from": true, "--registry": true, "-C": true, "--cache": true,
	"-u": true}

// isOnecall reports whether a server is onecall, which must not start itself. It checks the command and the package that a runner runs.
// It ignores other arguments, which may contain anything.
func isOnecall(server gjson.Result) bool {
	words := []string{server.Get("command").String()}
	for _, arg := range server.Get("args").Array() {
		words = append(words, arg.String())
	}
	for len(words) > 0 {
		program := baseName(words[0])
		if program == "onecall" {
			return true
		}
		follows, runs := runners[program]
		words = words[1:]
		if !runs {
			return false
		}
		if follows != nil {
			if len(words) == 0 || !slices.Contains(follows, strings.ToLower(words[0])) {
				return false
			}
			words = words[1:]
		}
		words = afterFlags(words)
	}
	return false
}

// afterFlags skips flags and assignments of variables.
func afterFlags(words []string) []string {
	for len(words) > 0 {
		switch {
		case runnerFlags[words[0]]:
			words = words[min(2, len(words)):]
		case strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "="):
			words = words[1:]
		default:
			return words
		}
	}
	return nil
}

// baseName returns the name of a program or package without folder, version and extension.
func baseName(word string) string {
	segments := strings.FieldsFunc(strings.ToLower(word), func(c rune) bool { return c == '/' || c == '\\' })
	if len(segments) == 0 {
		return ""
	}
	base, _, _ := strings.Cut(segments[len(segments)-1], "@")
	for _, ending := range []string{".exe", ".cmd", ".bat"} {
		base = strings.TrimSuffix(base, ending)
	}
	return base
}
