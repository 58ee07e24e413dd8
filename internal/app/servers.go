package app

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/credential"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// plannedServer is an MCP server that will be started if the configuration has no faults.
type plannedServer struct {
	name, pointer string
	key           string             // its key in the pool
	options       *mcpsource.Options // nil: the server is disabled
	personal      bool               // it is called as each caller
}

// planServers prepares the MCP servers for startServers.
func (o *sourceOpener) planServers() {
	for i := range o.config.MCPServers {
		entry := &o.config.MCPServers[i]
		p := plannedServer{name: entry.Source(), pointer: fault.Key("/mcpServers", entry.Name)}
		if failed := o.failedForUnsetVariable(p.pointer); failed != nil {
			o.add(p.name, p.pointer, failed, nil)
			continue
		}
		if !entry.Config.Off() {
			var err error
			if p.options, err = o.serverOptions(p.name, p.pointer, &entry.Config); err != nil {
				o.add(p.name, p.pointer, nil, err)
			}
			p.key, p.personal = o.serverKey(p.name, &entry.Config), entry.Config.Auth.CallersOwn()
		}
		o.servers = append(o.servers, p)
	}
}

// serverKey returns the key of a server in the pool. Settings of the server's functions are not part of it.
func (o *sourceOpener) serverKey(name string, c *config.MCPServer) string {
	settings := *c
	settings.IncludeTools, settings.ExcludeTools, settings.Disabled, settings.Enabled = nil, nil, nil, nil
	return "server " + name + " " + fingerprint(&settings, o.config.Limits.MaxResultBytes, o.passesThrough(), o.config.SecretVariables,
		o.config.PlainVariables)
}

// startServers starts the MCP servers concurrently, without waiting for them. Servers that already run with the same settings are kept.
func (o *sourceOpener) startServers() {
	for _, p := range o.servers {
		if p.options == nil {
			o.add(p.name, p.pointer, absentSource{steps.Status{State: steps.StateDisabled}}, nil)
			continue
		}
		source, err := o.acquireSource(p.name, p.key, func() (steps.Live, error) {
			if p.personal {
				return o.newPersonalServer(p.options)
			}
			return mcpsource.New(p.options)
		})
		if err != nil {
			o.add(p.name, p.pointer, nil, err)
			continue
		}
		switch server := source.Live.(type) {
		case *mcpsource.Source:
			o.App.servers[p.name] = server
			o.add(p.name, p.pointer, source, nil)
		case *personalServer:
			o.personal[p.name] = true
			o.add(p.name, p.pointer, personalUse{source, server}, nil)
		}
	}
}

// installTimeout is the start timeout of commands that may have to install the server first.
const installTimeout = 2 * time.Minute

// startTimeout returns how long a server may take to start; 0: the default of the source.
func startTimeout(c *config.MCPServer) time.Duration {
	if limit := c.StartTimeout(); limit > 0 {
		return limit
	}
	command := filepath.Base(config.Or(c.Command, ""))
	if name := strings.TrimSuffix(command, filepath.Ext(command)); name == "npx" || name == "uvx" {
		return installTimeout
	}
	return 0
}

// serverOptions converts an entry of mcpServers.
func (o *sourceOpener) serverOptions(name, pointer string, c *config.MCPServer) (*mcpsource.Options, error) {
	options := &mcpsource.Options{
		Name: name, Command: config.Or(c.Command, ""), Args: c.Args, Env: c.Env, Dir: config.Or(c.Cwd, ""),
		URL: config.Or(c.URL, ""), Headers: c.Headers, Secrets: append([]string{}, o.config.Secrets...), SSE: config.Or(c.Type, "") == "sse",
		Lazy:         config.Or(c.Start, "") == "lazy",
		Names:        config.Or(c.Names, ""),
		Concurrency:  config.Or(c.Concurrency, 0),
		StartTimeout: startTimeout(c), CallTimeout: c.CallTimeout(),
		ClientName: "onecall", ClientVersion: o.process.Version, Warn: o.process.warnRedacted,
		AsProxy: o.process.serve && o.passesThrough(), Roots: config.Or(c.Roots, false),
	}
	if limit := int64(config.Or(o.config.Limits.MaxResultBytes, 0)); limit > 0 {
		options.MaxMessageBytes = limit + 1<<20 // room for the rest of the message
	}
	switch p := o.process; {
	case p.Verbose:
		options.Log = func(line string) { p.Reporter.Notice("%s: %s", name, textfile.Printable(p.Redactor.Text(line))) }
	case !p.serve:
		options.Log = func(line string) { p.lastLines.Store(name, line) }
	}
	if options.Lazy {
		options.CacheFile = o.toolCacheFile(name)
	}
	if options.URL == "" {
		return options, nil
	}
	rules, err := egress.AnyPublic().WithURLs(options.URL)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%v", err).Under("/url")
	}
	options.HTTPClient = rules.Client(nil)
	if own := o.gatewayCredential(name, pointer, c.Auth); own != nil {
		options.OAuth, options.Remedy = credential.Handler(own), "it refuses the token of clientCredentials"
		return options, nil
	}
	if c.Auth.CallersOwn() {
		options.Lazy, options.CacheFile, options.AsProxy, options.Roots = false, "", false, false
		options.Remedy = "it refuses what your request brings for it"
		if c.Auth.LogsIn() {
			options.Remedy = "it refuses the token of your login"
		}
		return options, nil
	}
	if hasCredentials(c) {
		return options, nil
	}
	if options.SSE && c.OAuth == nil {
		return options, nil // the SDK has no logins for SSE
	}
	settings, err := loginOptions(name, c)
	if err == nil {
		options.OAuth, err = login.Handler(settings)
	}
	if err == nil {
		o.gatewayLogins[name] = settings
	}
	if c.OAuth == nil {
		return options, nil // such as plain http://, which never gets tokens and may need none
	}
	return options, err
}

// hasCredentials reports whether the configuration itself has a server's credentials, so that no login is needed.
func hasCredentials(c *config.MCPServer) bool {
	for header := range c.Headers {
		if http.CanonicalHeaderKey(header) == "Authorization" {
			return true
		}
	}
	return false
}

// toolsOf returns the names of a server's functions without the prefix of the source, including hidden functions; nil: the server is not
// open.
func (a *App) toolsOf(source string) []string {
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

// toolCacheFile returns the file that caches a lazy server's list of tools between commands, one for each configuration; "": there is no
// cache folder.
func (o *sourceOpener) toolCacheFile(source string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path, err := filepath.Abs(o.config.Path)
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "onecall", "tools", fmt.Sprintf("%s-%x.json", source, sha256.Sum256([]byte(path))))
}
