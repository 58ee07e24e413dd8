package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// planned is an MCP server that is opened when nothing is wrong with the configuration.
type planned struct {
	name, pointer string
	key           string
	open          *loan[*shared] // nil: it is not open yet
	options       *mcpsource.Options
	off           bool
}

// plan looks at the MCP servers.
func (o *opener) plan() {
	for i := range o.config.MCPServers {
		entry := &o.config.MCPServers[i]
		p := planned{name: entry.Source(), pointer: fault.Key("/mcpServers", entry.Name), off: entry.Config.Off()}
		if !p.off {
			p.key = o.serverKey(p.name, &entry.Config)
			if p.open = o.opened(p.key); p.open == nil {
				var err error
				if p.options, err = o.server(p.name, &entry.Config); err != nil {
					o.add(p.name, p.pointer, nil, err)
				}
			}
		}
		o.servers = append(o.servers, p)
	}
}

// serverKey is the key of a server on the shelf. What is said of its functions is none of the server's.
func (o *opener) serverKey(name string, c *config.MCPServer) string {
	settings := *c
	settings.IncludeTools, settings.ExcludeTools, settings.CacheTTL, settings.Disabled, settings.Enabled = nil, nil, nil, nil, nil
	return shelfKey("server", name, &settings, o.config.Limits.MaxResultBytes, o.passesThrough())
}

// errNotOpen is what there is instead of a server that is not open.
var errNotOpen = errors.New("not open")

// opened is the use of a source that is open already; nil where it is not. One that has failed, and is not tried again by itself,
// is opened anew.
func (o *opener) opened(key string) *loan[*shared] {
	lent, err := take(&o.shelf, key, func() (*shared, error) { return nil, errNotOpen })
	if err != nil {
		return nil
	}
	if lent.value.source.Status().State == steps.StateFailed {
		o.shelf.drop(key)
		lent.Close()
		return nil
	}
	return lent
}

// giveBack ends what was planned for servers that are not used after all.
func (o *opener) giveBack() {
	for _, p := range o.servers {
		if p.open != nil {
			p.open.Close()
		}
	}
}

// start starts the MCP servers, all at once: each goes on by itself. Those that are open stay so.
func (o *opener) start() {
	for _, p := range o.servers {
		if p.off {
			o.add(p.name, p.pointer, absent{steps.Status{State: steps.StateDisabled}}, nil)
			continue
		}
		lent, err := p.open, error(nil)
		if lent == nil {
			lent, err = take(&o.shelf, p.key, func() (*shared, error) {
				source, err := mcpsource.New(p.options)
				if err != nil {
					return nil, err
				}
				return newShared(source), nil
			})
		}
		if err != nil {
			o.add(p.name, p.pointer, nil, err)
			continue
		}
		o.hold(p.name, p.key, lent.was)
		o.app.servers[p.name] = lent.value.source.(*mcpsource.Source) //nolint:forcetypeassert // its key is a server's
		o.add(p.name, p.pointer, &uncached{lent.value.source, lent, o.cache, p.name}, nil)
	}
}

// server is an entry of mcpServers as the source takes it.
func (o *opener) server(name string, c *config.MCPServer) (*mcpsource.Options, error) {
	options := &mcpsource.Options{
		Name: name, Command: config.Or(c.Command, ""), Args: c.Args, Env: c.Env, Dir: config.Or(c.Cwd, ""),
		URL: config.Or(c.URL, ""), Headers: c.Headers, SSE: config.Or(c.Type, "") == "sse",
		Lazy: config.Or(c.Start, "") == "lazy", IdleStop: config.Or(c.IdleStop, 0), Protocol: config.Or(c.Protocol, ""),
		Names:        config.Or(c.Names, ""),
		Concurrency:  config.Or(c.Concurrency, 0),
		StartTimeout: time.Duration(config.Or(c.StartTimeoutMs, 0)) * time.Millisecond,
		ClientName:   "onecall", ClientVersion: version(), Warn: o.warn,
		AsProxy: o.use.serve && o.passesThrough(), Roots: config.Or(c.Roots, false),
	}
	if limit := int64(config.Or(o.config.Limits.MaxResultBytes, 0)); limit > 0 {
		options.MaxMessageBytes = limit + 1<<20
	}
	if o.cli.verbose {
		options.Log = func(line string) { o.cli.note("%s: %s", name, textfile.Printable(o.redactor.Text(line))) }
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
	settings, err := oauthOptions(name, c)
	if err == nil {
		options.OAuth, err = login.Handler(settings)
	}
	if c.OAuth == nil {
		return options, nil // such as a plain http:// server, which never gets tokens: it may need none
	}
	return options, err
}

// shared is a source that several may watch: those who have it are told of each change.
type shared struct {
	source steps.Live

	mu       sync.Mutex // held while they are told
	watchers map[*uncached]func()
}

func newShared(source steps.Live) *shared {
	s := &shared{source: source, watchers: map[*uncached]func(){}}
	source.Watch(s.tell)
	return s
}

func (s *shared) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.watchers {
		changed()
	}
}

// watch has a user be told of changes; nil: no more, and not any more when watch has returned.
func (s *shared) watch(user *uncached, changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, user)
	if changed != nil {
		s.watchers[user] = changed
	}
}

// Close closes the source.
func (s *shared) Close() error { return s.source.Close() }

// uncached is one use of a source, whose answers leave the call cache when its state or its functions change.
type uncached struct {
	steps.Live
	loan  *loan[*shared]
	cache *cache.Cache
	name  string
}

// Watch implements steps.Live.
func (u *uncached) Watch(changed func()) {
	u.loan.value.watch(u, func() {
		u.cache.Flush(u.name)
		changed()
	})
}

// Close implements steps.Source: the source is closed when nobody uses it any more.
func (u *uncached) Close() error {
	u.loan.value.watch(u, nil)
	return u.loan.Close()
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
	path, err := filepath.Abs(o.config.Path)
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "onecall", "tools", fmt.Sprintf("%s-%x.json", source, sha256.Sum256([]byte(path))))
}
