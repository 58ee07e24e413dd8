package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// cacheVersion is the version of the file format.
const cacheVersion = 1

// cacheFile is the content of a lazy source's cache.
type cacheFile struct {
	Version int               `json:"version"`
	Options string            `json:"options"` // fingerprint; a list for other options is not used
	Server  string            `json:"server"`
	Tools   []json.RawMessage `json:"tools"`

	Capabilities *sdk.ServerCapabilities `json:"capabilities,omitempty"`
}

// fingerprint identifies options under which a server may list the same tools. It includes only the names of variables and headers,
// so that the file does not help to guess their values; the next start corrects a list that changed with a value.
func (o *Options) fingerprint() string {
	text, err := json.Marshal([]any{o.Name, o.Command, o.Args, o.Dir, slices.Sorted(maps.Keys(o.Env)), o.address(), o.path(), o.SSE,
		slices.Sorted(maps.Keys(o.Headers)), o.Protocol, o.AsProxy, o.Roots})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// readCache returns what the last run stored: the tools, the server's name and version, and its capabilities. It returns false if no
// tools are usable.
func (s *Source) readCache() ([]tool, string, *sdk.ServerCapabilities, bool) {
	if s.options.CacheFile == "" {
		return nil, "", nil, false
	}
	file, err := os.Open(s.options.CacheFile)
	if err != nil {
		return nil, "", nil, false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxListBytes))
	var cache cacheFile
	if err != nil || json.Unmarshal(text, &cache) != nil || cache.Version != cacheVersion || cache.Options != s.options.fingerprint() {
		return nil, "", nil, false // old or damaged: the next start replaces it
	}
	list := toolList{source: s, seen: map[string]bool{}}
	for _, raw := range cache.Tools {
		list.add(gjson.ParseBytes(raw))
	}
	// Without tools the list is not usable: no call would ever start the server.
	return s.assignNames(list.tools), cache.Server, cache.Capabilities, len(list.tools) > 0
}

// writeCache stores the tools for the next run. A half-written file is damaged, so it is not used.
func (s *Source) writeCache(tools []tool, server string, capabilities *sdk.ServerCapabilities) {
	if !s.options.Lazy || s.options.CacheFile == "" {
		return
	}
	cache := cacheFile{
		Version: cacheVersion, Options: s.options.fingerprint(), Server: server, Tools: []json.RawMessage{}, Capabilities: capabilities,
	}
	for _, t := range tools {
		cache.Tools = append(cache.Tools, json.RawMessage(t.raw))
	}
	text, err := json.Marshal(cache)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.options.CacheFile), 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.options.CacheFile, text, 0o600)
	}
	if err != nil {
		s.warn(fault.New(fault.Unavailable, "MCP server %q: its list of tools could not be stored in %s: %s",
			s.options.Name, quoted(s.options.CacheFile), cause(err)))
	}
}
