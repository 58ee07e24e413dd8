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

// functionSettings returns the settings of functions: common aliases, entries under functions, and settings in the entries of MCP servers.
func functionSettings(c *config.File) (*steps.Settings, []*fault.Error) {
	list := settingList(c)
	given := make([]steps.Setting, len(list))
	for i := range list {
		given[i] = list[i].Setting
	}
	settings, faults := steps.NewSettings(given)
	for i, f := range faults {
		_, faults[i] = locate(c, list, f)
	}
	return settings, faults
}

// renameConflicts returns the faults of renames whose new name is taken by another rename or by an embedded function, or begins with the
// prefix of an embedded source. embedded are the names of the embedded functions.
func renameConflicts(c *config.File, embedded []string) (faults []*fault.Error) {
	renamed, isEmbedded := map[string]string{}, map[string]bool{}
	for _, name := range embedded {
		isEmbedded[steps.FoldName(name)] = true
	}
	for i := range c.Functions {
		pattern, rename := c.Functions[i].Name, c.Functions[i].Config.Rename
		if rename == nil || *rename == pattern {
			continue
		}
		at, folded := fault.Key("/functions", pattern)+"/rename", steps.FoldName(*rename)
		from, _, _ := strings.Cut(pattern, ".")
		source, _, dotted := strings.Cut(*rename, ".")
		other, duplicate := renamed[folded]
		switch {
		case duplicate:
			faults = append(faults, c.FaultAt(at, fault.New(fault.BadRequest, "%s gets this name too: choose another for one of the two",
				fault.Clip(other, 60))))
		case isEmbedded[folded]:
			faults = append(faults, c.FaultAt(at, fault.New(fault.BadRequest, "%s is an embedded function: choose another name",
				fault.Clip(*rename, 60))))
		case dotted && source != from && slices.Contains(config.Embedded, strings.ToLower(source)):
			faults = append(faults, c.FaultAt(at, fault.New(fault.BadRequest,
				"names that begin with %s. are those of embedded functions: choose another", source)))
		}
		renamed[folded] = pattern
	}
	return faults
}

// unusedSettings calls the function of that name.
func (s *subject) unusedSettings() []*fault.Error {
	return unusedSettings(s.config, s.settings, s.names, s.toolsOf, s.absent)
}

// unusedSettings returns faults for patterns under functions that match no function, and for entries of includeTools and excludeTools
// that match no tool, with the nearest names. toolsOf returns the tools of a server. Patterns that could match a function of an absent
// source are skipped.
func unusedSettings(c *config.File, settings *steps.Settings, names []string, toolsOf func(source string) []string,
	absent []string) []*fault.Error {
	list := settingList(c)
	unusedAt := map[string]int{} // number of unused patterns by pointer
	for _, setting := range list {
		unusedAt[setting.pointer]++
	}
	var unused []*fault.Error
	for _, f := range settings.Unused(names) {
		setting, f := locate(c, list, f)
		unusedAt[setting.pointer]--
		switch {
		// not written as a pattern by the user, another pattern of the same entry matches, or a function may be in an absent source
		case setting.tool == "" && !strings.HasPrefix(f.At, "/functions/"), unusedAt[setting.pointer] > 0,
			slices.ContainsFunc(absent, func(source string) bool { return mayMatch(setting.Pattern, source) }):
		case setting.tool == "":
			unused = append(unused, f)
		default:
			f.Message = fmt.Sprintf("%q matches no tool of %s", fault.Clip(setting.tool, 60), setting.source)
			f.Nearest = fault.Nearest(setting.tool, toolsOf(setting.source), 3)
			unused = append(unused, f)
		}
	}
	return config.InOrder(unused)
}

// mayMatch reports whether a pattern could match some function of a source.
func mayMatch(pattern, source string) bool {
	prefix := source + "."
	if wild := strings.IndexAny(pattern, "*?"); wild >= 0 && wild < len(prefix) {
		return strings.HasPrefix(prefix, pattern[:wild])
	}
	return strings.HasPrefix(pattern, prefix)
}

// locate returns the setting that a fault of package steps is about, and a copy of the fault with its place in the configuration. The
// fault's At begins with the index of the setting in list; the copy has the setting's JSON Pointer instead. If At has no valid
// index, the setting is the zero value, and the fault gets no place.
func locate(c *config.File, list []locatedSetting, f *fault.Error) (locatedSetting, *fault.Error) {
	position, rest, _ := strings.Cut(strings.TrimPrefix(f.At, "/"), "/")
	moved := *f
	moved.At = ""
	if rest != "" {
		moved.At = "/" + rest
	}
	i, err := strconv.Atoi(position)
	if err != nil || i >= len(list) {
		return locatedSetting{}, &moved
	}
	return list[i], c.FaultAt(list[i].pointer, &moved)
}

// locatedSetting is a setting with its JSON Pointer in the configuration.
type locatedSetting struct {
	steps.Setting
	pointer      string
	source, tool string // the tool as written in includeTools or excludeTools; "": another kind of setting
}

// settingList returns all settings of functions: the common aliases, the entries of functions, and those in the entries of MCP servers.
func settingList(c *config.File) []locatedSetting {
	var list []locatedSetting
	if len(c.Aliases) > 0 {
		list = append(list, locatedSetting{Setting: steps.Setting{Pattern: "*", CommonAliases: c.Aliases}, pointer: "/aliases"})
	}
	for i := range c.Functions {
		one := &c.Functions[i]
		list = append(list, locatedSetting{Setting: settingOf(one.Name, &one.Config), pointer: fault.Key("/functions", one.Name)})
	}
	return append(list, sourceSettings(c)...)
}

// settingOf converts an entry under functions into a setting. Effect and tier were validated when the entry was decoded.
func settingOf(pattern string, c *config.Function) steps.Setting {
	s := steps.Setting{Pattern: pattern, Hide: c.Hide, Rename: c.Rename, Heavy: c.Heavy, Description: c.Description,
		CacheTTL: c.CacheTTL, Approve: c.Approve, Defaults: c.Defaults, Aliases: c.Aliases, Result: c.Result, Fields: c.Fields,
		IgnoreOutput: c.Output != nil}
	if u := c.Undo; u != nil {
		s.Undo = &steps.Undo{Function: config.Or(u.Fn, ""), Args: u.Args}
	}
	if a := c.Answer; a != nil && config.Or(a.Top, 1) > 0 { // else the configuration says what is wrong
		s.Answer = &steps.Excerpt{Keep: a.Keep, Drop: a.Drop, Top: config.Or(a.Top, 0)}
	}
	if k := c.IdempotencyKey; k != nil {
		s.Idempotency = &steps.Idempotency{Header: config.Or(k.Header, ""), Argument: config.Or(k.Arg, ""), TTL: config.Or(k.TTL, 0)}
	}
	s.Gives, _ = c.Labels() // checked with the configuration
	s.Takes, _ = c.Roles()
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

// sourceSettings returns the settings in the entries of MCP servers.
func sourceSettings(c *config.File) []locatedSetting {
	var list []locatedSetting
	hide, show := true, false
	tools := func(source, at string, names []string, hidden *bool) {
		for i, tool := range names {
			for _, pattern := range toolPatterns(source, tool) {
				list = append(list, locatedSetting{Setting: steps.Setting{Pattern: pattern, Hide: hidden}, pointer: fault.Index(at, i),
					source: source, tool: tool})
			}
		}
	}
	for i := range c.MCPServers {
		source, at, server := c.MCPServers[i].Source(), fault.Key("/mcpServers", c.MCPServers[i].Name), &c.MCPServers[i].Config
		tools(source, at+"/excludeTools", server.ExcludeTools, &hide)
		tools(source, at+"/includeTools", server.IncludeTools, &show)
		if len(server.IncludeTools) > 0 { // last: a tool may be *
			list = append(list, locatedSetting{Setting: steps.Setting{Pattern: source + ".*", Hide: &hide}, pointer: at})
		}
		for _, preset := range config.LabelPresets[config.Or(server.Labels, "")] {
			gives, takes := preset.Labels()
			list = append(list, locatedSetting{pointer: at + "/labels",
				Setting: steps.Setting{Pattern: source + "." + preset.Pattern, Gives: gives, Takes: takes, Preset: true}})
		}
	}
	return list
}

// toolPatterns returns the patterns of the function names that package mcpsource may give a tool. A valid tool name is kept. Otherwise
// invalid characters are replaced, and digits of the name's hash are appended. If only slashes are invalid, the digits are appended only
// to resolve a conflict with another tool.
func toolPatterns(source, tool string) []string {
	function := toolFunctionName(tool)
	if function == tool {
		return []string{source + "." + function}
	}
	digits := "????????" // a tool with wildcards has no single hash: match any eight digits
	if !strings.ContainsAny(tool, "*?") {
		hash := sha256.Sum256([]byte(tool))
		digits = hex.EncodeToString(hash[:4])
	}
	hashed := source + "." + function + "_" + digits
	if strings.ReplaceAll(tool, "/", ".") == function {
		return []string{source + "." + function, hashed}
	}
	return []string{hashed}
}

// invalidToolBytes matches the bytes that mcpsource replaces in a tool's name, except * and ?, which are wildcards here.
var invalidToolBytes = regexp.MustCompile(`[^A-Za-z0-9_.*?-]`)

// maxToolName is the length in bytes at which mcpsource cuts a tool's name.
const maxToolName = 180

// toolFunctionName returns a tool's name as mcpsource writes it in a function's name, without the digits of a hash.
func toolFunctionName(tool string) string {
	name := invalidToolBytes.ReplaceAllString(strings.ReplaceAll(prefixBytes(tool, maxToolName), "/", "."), "_")
	segments := strings.Split(name, ".")
	for i, segment := range segments {
		if segment == "" {
			segments[i] = "_"
		}
	}
	return strings.Join(segments, ".")
}

func prefixBytes(text string, n int) string { return text[:min(len(text), n)] }
