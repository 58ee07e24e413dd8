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
		Short: "Tell a host that asks before a tool call whether a chain may run",
		Long: "The rules of a host such as Claude Code see the tool chain, and not the functions in it. As the host's PreToolUse hook, this\n" +
			"command reads a call on stdin and answers allow, ask or deny by the lists under hook in the configuration. The strictest\n" +
			"answer for any function in the chain counts, also for those in inline chains. Without such lists, or if no function is\n" +
			"called, it answers nothing, and the host's own rules apply. A call that cannot be read is denied.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return c.hook() },
	}
}

// exitBlocks is the exit status of a hook that blocks a call. With any other status but 0 the host ignores the answer and allows the
// call.
const exitBlocks = 2

// hookAnswer is the answer of a PreToolUse hook of Claude Code.
type hookAnswer struct {
	Output hookOutput `json:"hookSpecificOutput"`
}

type hookOutput struct {
	Event    string        `json:"hookEventName"`
	Decision hook.Decision `json:"permissionDecision"`
	Reason   string        `json:"permissionDecisionReason"`
}

// maxHookInput is the maximum size of a call, in bytes.
const maxHookInput = 64 << 20

func (c *cli) hook() error {
	verdict := c.judge()
	if verdict.Decision == "" {
		return nil
	}
	if err := c.writeValue(hookAnswer{hookOutput{"PreToolUse", verdict.Decision, "onecall: " + verdict.Reason}}); err != nil {
		return exitError(exitBlocks)
	}
	return nil
}

// projectVariable names the folder in which the host, and so its servers, started. A hook starts in the session's current folder,
// where there may be another configuration.
const projectVariable = "CLAUDE_PROJECT_DIR"

// judge reads a call on stdin and returns the verdict on it, by the configuration of the host's project. A verdict without a decision
// leaves the call to the host's own rules.
func (c *cli) judge() hook.Verdict {
	if project := os.Getenv(projectVariable); project != "" && c.configPath == "" {
		if err := os.Chdir(project); err != nil {
			return hook.Verdict{Decision: hook.Deny, Reason: "the rules cannot be read: " + projectVariable + ": " + textfile.Cause(err).Error()}
		}
	}
	cfg, faults := config.Load(c.configPath)
	for _, f := range faults {
		if cfg.Unreadable || hidesRules(f) {
			return hook.Verdict{Decision: hook.Deny, Reason: "the rules of " + cfg.Path + " cannot be read: " + fault.Message(f)}
		}
	}
	rules := rulesOf(&cfg.Config)
	if rules.IsEmpty() {
		return hook.Verdict{}
	}
	call, err := io.ReadAll(io.LimitReader(c.in, maxHookInput+1))
	if err != nil || len(call) > maxHookInput {
		return hook.Verdict{Decision: hook.Deny, Reason: "the call cannot be read, or is too large"}
	}
	return rules.Judge(call)
}

// hidesRules reports whether rules may be missing because of a fault in the configuration: the fault is in the rules, or about the
// whole configuration, or about an unknown key at the top level, which may be a misspelled hook.
func hidesRules(f *fault.Error) bool {
	return f.At == "" || f.At == "/hook" || strings.HasPrefix(f.At, "/hook/") || f.Code == fault.UnknownField && strings.Count(f.At, "/") == 1
}

// rulesOf returns the rules of a configuration, and the names that it gives to functions.
func rulesOf(c *config.Config) *hook.Rules {
	r := &hook.Rules{Allow: c.Hook.Allow, Ask: c.Hook.Ask, Deny: c.Hook.Deny,
		Sources: slices.Clone(config.Embedded), Renamed: map[string]string{}}
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
