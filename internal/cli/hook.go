package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/hook"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

func newHookCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "hook",
		Short: "Tell a host that asks before each call of a tool what it does with a chain",
		Long: "The rules of a host such as Claude Code see the tool chain, and not the functions in it. As its PreToolUse hook this command\n" +
			"reads a call on stdin, and answers allow, ask or deny by the lists under hook in the configuration: the strongest that one of\n" +
			"the functions in the chain has, however deep it stands. Without such lists, and for a call of no function, it answers nothing,\n" +
			"and the host's own rules hold. What cannot be read is denied.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.hook() },
	}
}

// exitBlocks is the exit status of a hook that blocks a call. Any other but 0 lets it pass, whatever was answered.
const exitBlocks = 2

// hookAnswer is what a PreToolUse hook of Claude Code answers.
type hookAnswer struct {
	Output hookOutput `json:"hookSpecificOutput"`
}

type hookOutput struct {
	Event    string        `json:"hookEventName"`
	Decision hook.Decision `json:"permissionDecision"`
	Reason   string        `json:"permissionDecisionReason"`
}

// maxHookInput bounds a call, in bytes.
const maxHookInput = 64 << 20

func (c *cli) hook() error {
	verdict := c.judge()
	if verdict.Decision == "" {
		return nil
	}
	if err := c.writeValue(hookAnswer{hookOutput{"PreToolUse", verdict.Decision, "onecall: " + verdict.Reason}}); err != nil {
		return answered(exitBlocks)
	}
	return nil
}

// projectVariable is the folder that a host was started in, which its servers were started in too. Hooks are started where the session has
// gone to since, and another configuration may lie there.
const projectVariable = "CLAUDE_PROJECT_DIR"

func (c *cli) judge() hook.Verdict {
	if project := os.Getenv(projectVariable); project != "" && c.configPath == "" {
		if err := os.Chdir(project); err != nil {
			return hook.Verdict{Decision: hook.Deny, Reason: "the rules cannot be read: " + projectVariable + ": " + textfile.Cause(err).Error()}
		}
	}
	cfg, faults := config.Load(c.configPath)
	for _, f := range faults {
		if cfg.Unread || hidesRules(f) {
			return hook.Verdict{Decision: hook.Deny, Reason: "the rules of " + cfg.Path + " cannot be read: " + fault.Message(f)}
		}
	}
	rules := rulesOf(&cfg.Config)
	if rules.None() {
		return hook.Verdict{}
	}
	call, err := io.ReadAll(io.LimitReader(c.in, maxHookInput+1))
	if err != nil || len(call) > maxHookInput {
		return hook.Verdict{Decision: hook.Deny, Reason: "the call cannot be read, or is too large"}
	}
	return rules.Judge(call)
}

// hidesRules reports whether by a fault of the configuration its rules may not be known: it is in them, or about all of it, or a key of
// the outermost object is not known, which may be hook in other letters. What is wrong elsewhere changes no rule.
func hidesRules(f *fault.Error) bool {
	return f.At == "" || f.At == "/hook" || strings.HasPrefix(f.At, "/hook/") || f.Code == fault.UnknownField && strings.Count(f.At, "/") == 1
}

// rulesOf are the rules of a configuration, with the names that functions have in it.
func rulesOf(c *config.Config) *hook.Rules {
	r := &hook.Rules{Allow: c.Hook.Allow, Ask: c.Hook.Ask, Deny: c.Hook.Deny, Sources: slices.Clone(config.Embedded), Renamed: map[string]string{}}
	for _, server := range c.MCPServers {
		r.Sources = append(r.Sources, server.Source())
	}
	for _, service := range c.OpenAPI {
		r.Sources = append(r.Sources, service.Source())
	}
	for i := range c.Functions {
		if name := c.Functions[i].Config.Rename; name != nil {
			r.Renamed[*name] = c.Functions[i].Name
		}
	}
	return r
}
