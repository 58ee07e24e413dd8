package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/egress"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/callcache"
	"github.com/onecall-mcp/onecall/steps/mcpsource"
	"github.com/onecall-mcp/onecall/steps/oauth"
)

// servers starts the MCP servers, all at once: each goes on by itself.
func (o *opener) servers() {
	for i := range o.config.MCPServers {
		entry := &o.config.MCPServers[i]
		pointer := fault.Key("/mcpServers", entry.Name)
		if entry.Config.off() {
			o.add(entry.source(), pointer, absent{steps.Status{State: steps.StateDisabled}}, nil)
			continue
		}
		options, err := o.server(entry.source(), &entry.Config)
		if err != nil {
			o.add(entry.source(), pointer, nil, err)
			continue
		}
		source, err := mcpsource.New(options)
		if err != nil {
			o.add(entry.source(), pointer, nil, err)
			continue
		}
		server := &uncached{source, o.cache, entry.source()}
		o.app.servers[entry.source()] = server
		o.add(entry.source(), pointer, server, nil)
	}
}

// server is an entry of mcpServers as the source takes it.
func (o *opener) server(name string, c *mcpServerConfig) (*mcpsource.Options, error) {
	options := &mcpsource.Options{
		Name: name, Command: valueOr(c.Command, ""), Args: c.Args, Env: c.Env, Dir: valueOr(c.Cwd, ""),
		URL: valueOr(c.URL, ""), Headers: c.Headers, SSE: valueOr(c.Type, "") == "sse",
		Lazy: valueOr(c.Start, "") == "lazy", IdleStop: valueOr(c.IdleStop, 0), Protocol: valueOr(c.Protocol, ""),
		StartTimeout: time.Duration(valueOr(c.StartTimeoutMs, 0)) * time.Millisecond,
		ClientName:   "onecall", ClientVersion: version(), Warn: o.warn,
		AsProxy: o.use.serve && o.config.passesThrough(), Roots: valueOr(c.Roots, false),
	}
	if limit := int64(valueOr(o.config.Limits.MaxResultBytes, 0)); limit > 0 {
		options.MaxMessageBytes = limit + 1<<20
	}
	if o.cli.verbose {
		options.Log = func(line string) { o.cli.note("%s: %s", name, printable(o.scrubber.Text(line))) }
	}
	if options.Lazy {
		options.CacheFile = o.toolCacheFile(name)
	}
	if options.URL == "" {
		return options, nil
	}
	rules, err := egress.Open().Naming(options.URL)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%v", err).Under("/url")
	}
	options.HTTPClient = rules.Client(nil)
	for header := range c.Headers {
		if http.CanonicalHeaderKey(header) == "Authorization" {
			return options, nil // the configuration's own credentials: there is nothing to log in for
		}
	}
	if options.SSE && c.OAuth == nil {
		return options, nil // the SDK has no logins there
	}
	login, err := oauthOptions(name, c)
	if err == nil {
		options.OAuth, err = oauth.Handler(login)
	}
	if c.OAuth == nil {
		return options, nil // such as a plain http:// server, which never gets tokens: it may need none
	}
	return options, err
}

// uncached is a server whose answers leave the call cache when it starts anew, or changes its tools.
type uncached struct {
	*mcpsource.Source
	cache *callcache.Cache
	name  string
}

// Watch implements steps.Live.
func (u *uncached) Watch(changed func()) {
	u.Source.Watch(func() {
		u.cache.Flush(u.name)
		changed()
	})
}

// toolsOf are the names of a server's functions without its own, hidden ones among them.
func (a *app) toolsOf(source string) []string {
	server, ok := a.servers[source]
	if !ok {
		return nil
	}
	names := namesOf(server)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, source+".")
	}
	return names
}

// toolCacheFile is where a lazy server's list of tools is kept between commands, for each configuration its own; "" where
// there is no folder for it.
func (o *opener) toolCacheFile(source string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(o.config.path)
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "onecall", "tools", fmt.Sprintf("%s-%x.json", source, sha256.Sum256([]byte(path))))
}
