package commands

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/steps"
)

// preset is one function of a preset.
type preset struct {
	suffix   string // what follows the command's name in the function's
	command  Command
	env      string        // the variables that are passed on if they are set
	defaults string        // arguments for calls that do not give them, as JSON
	timeout  time.Duration // the limit of a call that has none; 0: the server's
}

const (
	texts = `{"type":"array","items":{"type":"string"}}`
	paths = `{"type":"array","items":{"type":"string","format":"path"}}`
	count = `{"type":"integer","minimum":0}`
)

// flags is the schema of a list of options. A value of them, and no other, may be an option.
func flags(list string) string {
	words, _ := json.Marshal(strings.Fields(list))
	return `{"type":"array","items":{"enum":` + string(words) + `}}`
}

// schemas makes the Args of a command from names and schemas.
func schemas(pairs ...string) map[string]json.RawMessage {
	args := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return args
}

// git is a command of git that runs nothing which the repository names: no monitor, pager, differ, converter or verifier of signatures, and
// nothing in submodules. The filters of its own configuration remain.
func git(command string, arguments ...string) []string {
	fixed := "git -c core.fsmonitor= -c core.pager=cat -c log.showSignature=false -c color.ui=false"
	return append(append(strings.Fields(fixed), command), arguments...)
}

const gitEnv = "HOME PATH XDG_CONFIG_HOME USERPROFILE"

// gitFixedEnv makes git write no index and fetch no missing objects.
var gitFixedEnv = map[string]string{"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}

// complaints are the lines in which git and rg themselves tell of errors. What they print is the text of others, in which errors are only
// mentioned.
var complaints = []string{`^(error|fatal|rg): `}

// presets are the functions of each preset. The first word of a run is looked for in the PATH.
var presets = map[string][]*preset{
	"git": {
		{suffix: ".log", env: gitEnv, defaults: `{"max":30}`, command: Command{
			Env:         gitFixedEnv,
			Description: "Commits (git log), newest first.",
			Run: git("log", "--no-ext-diff", "--no-textconv", "--max-count={max}", "--since={since}", "--until={until}", "--author={author}",
				"--grep={grep}", "{options}", "{revisions}", "--", "{paths}"),
			Args: schemas("max", count, "since", `{"type":"string"}`, "until", `{"type":"string"}`, "author", `{"type":"string"}`,
				"grep", `{"type":"string","description":"regular expression on messages"}`,
				"options", flags("--oneline --stat --shortstat --name-only --name-status --patch --merges --no-merges --first-parent --reverse "+
					"--all --follow"),
				"revisions", texts, "paths", paths),
			Optional: []string{"max", "since", "until", "author", "grep", "options", "revisions", "paths"},
			Effect:   "read", Errors: complaints,
		}},
		{suffix: ".diff", env: gitEnv, command: Command{
			Env:         gitFixedEnv,
			Description: "Differences (git diff): of the working tree, or between revisions.",
			Run: git("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--unified={context}", "{options}", "{revisions}",
				"--", "{paths}"),
			Args: schemas("context", count,
				"options", flags("--cached --stat --numstat --shortstat --name-only --name-status --ignore-all-space --ignore-blank-lines "+
					"--merge-base"),
				"revisions", texts, "paths", paths),
			Optional: []string{"context", "options", "revisions", "paths"},
			Effect:   "read", Errors: complaints,
		}},
		{suffix: ".status", env: gitEnv, command: Command{
			Env:         gitFixedEnv,
			Description: "State of the working tree (git status --porcelain).",
			Run:         git("status", "--porcelain=v1", "--branch", "--ignore-submodules=dirty", "--untracked-files={untracked}", "--", "{paths}"),
			Args:        schemas("untracked", `{"enum":["no","normal","all"]}`, "paths", paths),
			Optional:    []string{"untracked", "paths"},
			Effect:      "read", Errors: complaints,
		}},
		{suffix: ".show", env: gitEnv, command: Command{
			Env:         gitFixedEnv,
			Description: "Commits with their differences, or files of a revision (git show): HEAD, HEAD~2, main:src/a.go.",
			Run:         git("show", "--no-ext-diff", "--no-textconv", "{options}", "{objects}", "--", "{paths}"),
			Args: schemas("options", flags("--oneline --stat --shortstat --name-only --name-status --no-patch"),
				"objects", texts, "paths", paths),
			Optional: []string{"options", "objects", "paths"},
			Effect:   "read", Errors: complaints,
		}},
	},
	"go": {
		{suffix: ".test", timeout: 5 * time.Minute, defaults: `{"packages":["./..."]}`,
			env: "HOME PATH TMPDIR XDG_CACHE_HOME GOCACHE GOENV GOFLAGS GOMODCACHE GONOPROXY GONOSUMDB GOPATH GOPRIVATE GOPROXY GOROOT " +
				"GOSUMDB GOTMPDIR GOTOOLCHAIN GOWORK CGO_ENABLED USERPROFILE LOCALAPPDATA TEMP TMP",
			command: Command{
				Description: "Runs the tests of Go packages (go test -json), which run their code. exit 1: some failed.",
				Run:         strings.Fields("go test -json -run={run} -count={count} -timeout={timeout} {options} {packages}"),
				Args: schemas("packages", `{"type":"array","items":{"type":"string","pattern":"^[^-]","format":"path"}}`,
					"run", `{"type":"string","description":"regular expression"}`, "count", count,
					"timeout", `{"type":"string","pattern":"^[0-9]+(ms|s|m|h)$"}`, "options", flags("-short -race -failfast")),
				Optional: []string{"packages", "run", "count", "timeout", "options"},
				Effect:   "write", FailsFrom: 2, MaxMemoryBytes: 4 << 30, MaxCPUTime: 10 * time.Minute,
				Errors: []string{`"Action":"(fail|build-fail|build-output)"`, `"Output":"[^"]*(--- FAIL|panic: |\.go:[0-9]+:)`},
			}},
	},
	"rg": {
		{env: "PATH", command: Command{
			Description: "Searches files (ripgrep). exit 1: nothing found.",
			Run: strings.Fields("rg --no-config --color=never --line-number --no-heading --sort=path --max-columns=500 --max-columns-preview " +
				"--glob={globs} --type={type} --context={context} --max-count={max} {options} -- {pattern} {paths}"),
			Args: schemas("pattern", `{"type":"string"}`, "paths", paths, "globs", texts, "type", `{"type":"string"}`, "context", count,
				"max", `{"type":"integer","minimum":0,"description":"matches of each file"}`,
				"options", flags("--ignore-case --smart-case --word-regexp --fixed-strings --files-with-matches --count --only-matching "+
					"--multiline --invert-match --hidden --no-ignore")),
			Optional: []string{"paths", "globs", "type", "context", "max", "options"},
			Effect:   "read", Errors: complaints, FailsFrom: 2,
		}},
	},
}

// PresetOf returns the name of the preset that has a function, such as git for sh.git.log, and the function's effect; "": none has it.
func PresetOf(function string) (name, effect string) {
	for name, list := range presets {
		for _, one := range list {
			if steps.FoldName("sh."+name+one.suffix) == steps.FoldName(function) {
				return name, one.command.Effect
			}
		}
	}
	return "", ""
}

// compiler returns what compiles the function for a command of the configuration, whose folder, variables and bounds win.
func (p *preset) compiler(given *Command) *compiler {
	c := p.command
	c.Name = given.Name + p.suffix
	c.Dir, c.Env = given.Dir, map[string]string{}
	maps.Copy(c.Env, p.command.Env)
	for name := range strings.FieldsSeq(p.env) {
		if value, set := os.LookupEnv(name); set {
			c.Env[name] = value
		}
	}
	maps.Copy(c.Env, given.Env)
	c.MaxOutputBytes = given.MaxOutputBytes
	c.MaxMemoryBytes = cmp.Or(given.MaxMemoryBytes, c.MaxMemoryBytes)
	c.MaxCPUTime = cmp.Or(given.MaxCPUTime, c.MaxCPUTime)
	return &compiler{Command: c, preset: p}
}
