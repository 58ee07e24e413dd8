package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// functionSettings are what the configuration says of functions: under functions, and in the entries of the sources.
func functionSettings(c *config.File) (*steps.Settings, []*fault.Error) {
	list := settingList(c)
	given := make([]steps.Setting, len(list))
	for i := range list {
		given[i] = list[i].Setting
	}
	settings, faults := steps.NewSettings(given)
	for i, f := range faults {
		_, faults[i] = placed(c, list, f)
	}
	return settings, faults
}

// sameNames are the faults of those that rename two functions to one name, or one to the name of an embedded function or
// into the source of embedded ones; taken are the names of the embedded functions.
func sameNames(c *config.File, taken []string) (faults []*fault.Error) {
	renamed, own := map[string]string{}, map[string]bool{}
	for _, name := range taken {
		own[steps.FoldName(name)] = true
	}
	for i := range c.Functions {
		pattern, rename := c.Functions[i].Name, c.Functions[i].Config.Rename
		if rename == nil || *rename == pattern {
			continue
		}
		at, folded := fault.Key("/functions", pattern)+"/rename", steps.FoldName(*rename)
		from, _, _ := strings.Cut(pattern, ".")
		source, _, dotted := strings.Cut(*rename, ".")
		other, twice := renamed[folded]
		switch {
		case twice:
			faults = append(faults, c.Under(at, fault.New(fault.BadRequest, "%s gets this name too: choose another for one of the two", fault.Clip(other, 60))))
		case own[folded]:
			faults = append(faults, c.Under(at, fault.New(fault.BadRequest, "%s is an embedded function: choose another name", fault.Clip(*rename, 60))))
		case dotted && source != from && slices.Contains(config.Embedded, strings.ToLower(source)):
			faults = append(faults, c.Under(at, fault.New(fault.BadRequest, "names that begin with %s. are those of embedded functions: choose another", source)))
		}
		renamed[folded] = pattern
	}
	return faults
}

// unusedSettings tells of the patterns under functions that fit no function, and of the entries of includeTools and
// excludeTools that fit no tool, with the nearest of names; toolsOf gives those of a server. What may fit a source that is
// absent is not told of.
func unusedSettings(c *config.File, settings *steps.Settings, names []string, toolsOf func(source string) []string, absent []string) []*fault.Error {
	list := settingList(c)
	spellings := map[string]int{} // of the entry at a place
	for _, one := range list {
		spellings[one.at]++
	}
	var unused []*fault.Error
	for _, f := range settings.Unused(names) {
		one, f := placed(c, list, f)
		spellings[one.at]--
		switch {
		case one.tool == "" && !strings.HasPrefix(f.At, "/functions/"), spellings[one.at] > 0, // no pattern of the user's, or it is used in another spelling
			slices.ContainsFunc(absent, func(source string) bool { return mayFit(one.Pattern, source) }):
		case one.tool == "":
			unused = append(unused, f)
		default:
			f.Message = fmt.Sprintf("%q fits no tool of %s", fault.Clip(one.tool, 60), one.source)
			f.Nearest = fault.Nearest(one.tool, toolsOf(one.source), 3)
			unused = append(unused, f)
		}
	}
	return config.InOrder(unused)
}

// mayFit reports whether a pattern may fit a function of a source.
func mayFit(pattern, source string) bool {
	prefix := source + "."
	if wild := strings.IndexAny(pattern, "*?"); wild >= 0 && wild < len(prefix) {
		return strings.HasPrefix(prefix, pattern[:wild])
	}
	return strings.HasPrefix(pattern, prefix)
}

// placed turns the position in the list of settings, with which a fault's At begins, into a place in the configuration.
func placed(c *config.File, list []placedSetting, f *fault.Error) (placedSetting, *fault.Error) {
	position, rest, _ := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
	moved := *f
	moved.At = ""
	if rest != "" {
		moved.At = "/" + rest
	}
	i, err := strconv.Atoi(position)
	if err != nil || i >= len(list) {
		return placedSetting{}, &moved
	}
	return list[i], c.Under(list[i].at, &moved)
}

// placedSetting is a setting with its place in the configuration.
type placedSetting struct {
	steps.Setting
	at           string
	source, tool string // the tool as includeTools or excludeTools has it; "": it is another setting
}

// settingList are all settings.
func settingList(c *config.File) []placedSetting {
	var list []placedSetting
	if len(c.Aliases) > 0 {
		list = append(list, placedSetting{Setting: steps.Setting{Pattern: "*", CommonAliases: c.Aliases}, at: "/aliases"})
	}
	for i := range c.Functions {
		one := &c.Functions[i]
		list = append(list, placedSetting{Setting: settingOf(one.Name, &one.Config), at: fault.Key("/functions", one.Name)})
	}
	return append(list, sourceSettings(c)...)
}

// settingOf turns an entry under functions into a setting. Its words are checked when it is read.
func settingOf(pattern string, c *config.Function) steps.Setting {
	s := steps.Setting{Pattern: pattern, Hide: c.Hide, Rename: c.Rename, Heavy: c.Heavy, Description: c.Description,
		CacheTTL: c.CacheTTL, Approve: c.Approve, Defaults: c.Defaults, Aliases: c.Aliases}
	if u := c.Undo; u != nil {
		s.Undo = &steps.Undo{Function: config.Or(u.Fn, ""), Args: u.Args}
	}
	if k := c.IdempotencyKey; k != nil {
		s.Idempotency = &steps.Idempotency{Header: config.Or(k.Header, ""), Argument: config.Or(k.Arg, ""), TTL: config.Or(k.TTL, 0)}
	}
	if c.Effect != nil {
		if effect, err := steps.ParseEffect(*c.Effect); err == nil {
			s.Effect = &effect
		}
	}
	if c.Tier != nil {
		if tier, err := steps.ParseTier(*c.Tier); err == nil {
			s.Tier = &tier
		}
	}
	if c.TimeoutMs != nil {
		timeout := time.Duration(*c.TimeoutMs) * time.Millisecond
		s.Timeout = &timeout
	}
	return s
}

// sourceSettings are what the entries of MCP servers say of their tools.
func sourceSettings(c *config.File) []placedSetting {
	var list []placedSetting
	hide, show := true, false
	tools := func(source, at string, names []string, hidden *bool) {
		for i, tool := range names {
			for _, pattern := range toolPatterns(source, tool) {
				list = append(list, placedSetting{Setting: steps.Setting{Pattern: pattern, Hide: hidden}, at: fault.Index(at, i), source: source, tool: tool})
			}
		}
	}
	for i := range c.MCPServers {
		source, at, server := c.MCPServers[i].Source(), fault.Key("/mcpServers", c.MCPServers[i].Name), &c.MCPServers[i].Config
		tools(source, at+"/excludeTools", server.ExcludeTools, &hide)
		tools(source, at+"/includeTools", server.IncludeTools, &show)
		if len(server.IncludeTools) > 0 { // after the tools: one of them may be *
			list = append(list, placedSetting{Setting: steps.Setting{Pattern: source + ".*", Hide: &hide}, at: at})
		}
	}
	return list
}

// toolPatterns are the names that the function of a tool may have, as package mcpsource gives them: the tool's own where
// a function can have it; else with other characters, and with digits of the name's hash. A name with slashes alone
// has the digits only where its plain form is another tool's.
func toolPatterns(source, tool string) []string {
	fit := fitToolName(tool)
	if fit == tool {
		return []string{source + "." + fit}
	}
	digits := "????????"
	if !strings.ContainsAny(tool, "*?") {
		hash := sha256.Sum256([]byte(tool))
		digits = hex.EncodeToString(hash[:4])
	}
	hashed := source + "." + fit + "_" + digits
	if strings.ReplaceAll(tool, "/", ".") == fit {
		return []string{source + "." + fit, hashed}
	}
	return []string{hashed}
}

var unfitForTool = regexp.MustCompile(`[^A-Za-z0-9_.*?-]`)

// maxToolName is where mcpsource cuts a tool's name, in bytes.
const maxToolName = 180

func fitToolName(tool string) string {
	fit := unfitForTool.ReplaceAllString(strings.ReplaceAll(prefixBytes(tool, maxToolName), "/", "."), "_")
	parts := strings.Split(fit, ".")
	for i, part := range parts {
		if part == "" {
			parts[i] = "_"
		}
	}
	return strings.Join(parts, ".")
}

func prefixBytes(text string, n int) string { return text[:min(len(text), n)] }
