package clients

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// functionSettings are settings of a server's functions that come from its client. They are written under functions.
type functionSettings struct {
	tool   string // "*": all tools
	fields []field
}

// set adds a setting of a tool, "*" for all. The last value of a key wins.
func (srv *clientServer) set(tool, key string, of any) {
	i := 0
	for i < len(srv.settings) && srv.settings[i].tool != tool {
		i++
	}
	if i == len(srv.settings) {
		srv.settings = append(srv.settings, functionSettings{tool: tool})
	}
	fields := &srv.settings[i].fields
	for n := range *fields {
		if (*fields)[n].key == key {
			(*fields)[n] = value(key, of)
			return
		}
	}
	*fields = append(*fields, value(key, of))
}

// leaveOut adds a comment on a setting that is not carried over.
func (srv *clientServer) leaveOut(key, why string) {
	srv.comments = append(srv.comments, key+" is left out: "+why)
}

// carrySettings carries over the limits and approvals of an entry.
func (srv *clientServer) carrySettings(server gjson.Result, section section) {
	if limit := server.Get("timeout"); limit.Exists() && section.startsWithin {
		srv.carryTime("timeout", limit, section.unit, func(ms int) { srv.fields = append(srv.fields, value("startTimeoutMs", ms)) })
	} else if limit.Exists() {
		srv.carryTime("timeout", limit, section.unit, srv.setTimeout)
	}
	switch trust := server.Get("trust"); trust.Type {
	case gjson.True:
		srv.set("*", "approve", steps.ApproveNever)
	case gjson.False:
		srv.set("*", "approve", steps.ApproveWrite)
	}
	for _, key := range []string{"autoApprove", "alwaysAllow"} {
		for _, tool := range server.Get(key).Array() {
			srv.setTool(key, tool.String(), "approve", steps.ApproveNever)
		}
	}
	if section.settings != nil {
		section.settings(srv, server)
	}
}

func (srv *clientServer) setTimeout(ms int) { srv.set("*", "timeoutMs", ms) }

// carryTime calls set with a span of time in milliseconds, which a client gives in unit. 0: the client has no such key.
func (srv *clientServer) carryTime(key string, span gjson.Result, unit time.Duration, set func(ms int)) {
	ms := span.Float() * float64(unit/time.Millisecond)
	switch {
	case unit == 0:
		srv.leaveOut(key, "this client has no such setting")
	case span.Type != gjson.Number || ms < 1 || ms > math.MaxInt32:
		srv.leaveOut(key, "it is not a span of time")
	default:
		set(int(ms))
	}
}

// toolPattern matches the names of tools that are also the names of their functions, and of patterns of them.
var toolPattern = regexp.MustCompile(`^[A-Za-z0-9_.*?-]+$`)

// setTool adds a setting of a tool, which the client has under from.
func (srv *clientServer) setTool(from, tool, key string, of any) {
	if !toolPattern.MatchString(tool) {
		srv.leaveOut(from+" of "+tool, "its function has another name; onecall tools shows it")
		return
	}
	srv.set(tool, key, of)
}

// codexApprovals are onecall's words for Codex's.
var codexApprovals = map[string]string{"prompt": steps.ApproveWrite, "auto": steps.ApproveDestroy, "approve": steps.ApproveNever}

// codexSettings carries over what only Codex has.
func codexSettings(srv *clientServer, server gjson.Result) {
	if limit := server.Get("tool_timeout_sec"); limit.Exists() {
		srv.carryTime("tool_timeout_sec", limit, time.Second, srv.setTimeout)
	}
	approval := func(key, tool, mode string) {
		if word, known := codexApprovals[mode]; known {
			srv.setTool(key, tool, "approve", word)
		} else {
			srv.leaveOut(key, "onecall has no approval "+mode)
		}
	}
	if mode := server.Get("default_tools_approval_mode"); mode.Exists() {
		approval("default_tools_approval_mode", "*", mode.String())
	}
	for tool, settings := range ordered(server.Get("tools")) {
		for key, member := range ordered(settings) {
			if key == "approval_mode" {
				approval("tools."+tool+".approval_mode", tool, member.String())
			} else {
				srv.leaveOut("tools."+tool+"."+key, "onecall does not know it")
			}
		}
	}
	if server.Get("required").Bool() {
		srv.leaveOut("required", "a server that cannot be started stops nothing")
	}
	if parallel := server.Get("supports_parallel_tool_calls"); parallel.Exists() && !parallel.Bool() {
		srv.leaveOut("supports_parallel_tool_calls", "concurrency: 1 makes its calls one by one")
	}
}

// zedSettings names what only Zed has.
func zedSettings(srv *clientServer, server gjson.Result) {
	if len(server.Get("settings").Map()) > 0 {
		srv.leaveOut("settings", "they are for an extension of Zed")
	}
}

// notInRule matches characters that Claude Code replaces in the names of servers in its rules.
var notInRule = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// carryRules carries over a client's rules for tools of its servers, mcp__SERVER or mcp__SERVER__TOOL in lists of permissions. Those of all
// files count together.
func (im *Import) carryRules(client string, paths []string) {
	var permissions []gjson.Result
	for _, path := range paths {
		text, err := readClientFile(path)
		if err == nil {
			permissions = append(permissions, gjson.GetBytes(text, "permissions"))
		} else if !errors.Is(err, fs.ErrNotExist) {
			im.problems = append(im.problems, fmt.Sprintf("%s (rules of %s): %v", path, client, textfile.Cause(err)))
		}
	}
	for _, list := range []string{"allow", "ask", "deny"} { // the strictest last, as it wins
		for _, lists := range permissions {
			for _, rule := range lists.Get(list).Array() {
				im.carryRule(client, list, rule.String())
			}
		}
	}
}

func (im *Import) carryRule(client, list, rule string) {
	for _, srv := range im.servers {
		rest, found := strings.CutPrefix(rule, "mcp__"+notInRule.ReplaceAllString(srv.original, "_"))
		if srv.configured || srv.skip != "" || srv.file.client != client || !found || rest != "" && !strings.HasPrefix(rest, "__") {
			continue
		}
		tool := strings.TrimPrefix(rest, "__")
		if tool == "" {
			tool = "*"
		}
		switch list {
		case "allow":
			srv.setTool(list, tool, "approve", steps.ApproveNever)
		case "ask":
			if tool == "*" {
				srv.askForAll()
			}
			srv.setTool(list, tool, "approve", steps.ApproveWrite)
		case "deny":
			srv.setTool(list, tool, "hide", true)
		}
	}
}

// askForAll makes calls of tools that were allowed one by one need approval, because a rule for the whole server wins over them.
func (srv *clientServer) askForAll() {
	for _, one := range srv.settings {
		for i := range one.fields {
			if one.fields[i].key == "approve" {
				one.fields[i] = value("approve", steps.ApproveWrite)
			}
		}
	}
}

// functionEntries returns the server's settings of functions as entries of functions.
func (srv *clientServer) functionEntries() (entries []entry) {
	for _, one := range srv.settings {
		name := config.SourceName(srv.name) + "." + one.tool
		var members []string
		for _, f := range one.fields {
			members = append(members, f.key+": "+yamlValue(gjson.ParseBytes(f.value)))
		}
		entries = append(entries, entry{name, fmt.Sprintf("  %s: {%s}\n", plainText(name), strings.Join(members, ", "))})
	}
	return entries
}

// geminiVariable matches a variable as Gemini CLI also writes it. Its other form is that of onecall.
var geminiVariable = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// geminiForm converts an entry of Gemini CLI, which expands $NAME in every text.
func geminiForm(server gjson.Result) ([]field, string) {
	fields, skip := sseForm(server)
	for i := range fields {
		fields[i].value = geminiVariable.ReplaceAll(fields[i].value, []byte("$${$1}"))
	}
	return fields, skip
}
