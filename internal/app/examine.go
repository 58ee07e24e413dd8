package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Finding is what an examination has found out about one thing.
type Finding struct {
	Check   Check  `json:"check"`
	Subject string `json:"subject,omitempty"` // which of them: a source, a client, a place; "": there is one
	Status  Status `json:"status"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"` // a command, or what to change; "": none is needed, or the message says it
}

// Check is what kind of thing a finding is about.
type Check string

// The checks.
const (
	CheckConfiguration Check = "configuration"
	CheckSource        Check = "source"
	CheckCommand       Check = "command" // of a server over stdio
	CheckLogin         Check = "login"
	CheckTools         Check = "tools" // as clients list them
	CheckJournal       Check = "journal"
	CheckResults       Check = "results" // the store
	CheckClient        Check = "client"
)

// Status says how bad a finding is.
type Status string

// The statuses.
const (
	StatusOK   Status = "ok"
	StatusWarn Status = "warn" // it works, and not as well as it could
	StatusFail Status = "fail"
)

// Examine looks at a configuration and at all that it needs: it starts the sources, and waits for each within its own deadline. What
// is wrong is in the findings, without secrets. Of a configuration with faults it looks at what can be looked at without starting
// anything.
func Examine(ctx context.Context, o *Options) []Finding {
	warnings := &collector{Reporter: o.Reporter}
	own := *o
	own.Reporter, own.List = warnings, true
	p := newProcess(&own, serving{})
	a, err := p.open(nil)
	e := &examination{App: a, refused: map[string]bool{}}
	e.configuration(err)
	e.commands(err == nil)
	if err == nil {
		e.running(ctx)
	}
	e.logins(ctx)
	for _, f := range warnings.taken() {
		e.warned(f)
	}
	_ = errors.Join(a.close(), p.close()) // what was opened was only looked at
	return e.findings
}

// collector keeps the warnings that a configuration gives.
type collector struct {
	Reporter
	mu   sync.Mutex
	list []*fault.Error
}

// Warn implements Reporter.
func (c *collector) Warn(f *fault.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, f)
}

func (c *collector) taken() []*fault.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// maxMessage bounds a finding's message in bytes: a server's last words may be many.
const maxMessage = 500

// examination gathers findings about an app, of which only the configuration is there if that has faults.
type examination struct {
	*App
	findings []Finding
	refused  map[string]bool // sources that did not let onecall in
}

func (e *examination) add(check Check, subject string, status Status, message, remedy string) {
	redactor := e.process.Redactor
	message = fault.Clip(redactor.Text(strings.TrimSuffix(message, ".")), maxMessage)
	e.findings = append(e.findings, Finding{check, subject, status, message, redactor.Text(remedy)})
}

func (e *examination) configuration(err error) {
	var refused *config.Error
	switch path := e.config.Path; {
	case errors.As(err, &refused):
		for _, f := range refused.Faults {
			e.faulty(StatusFail, f, "correct it there")
		}
	case err != nil:
		e.add(CheckConfiguration, path, StatusFail, fault.Message(err), "")
	case path == "":
		e.add(CheckConfiguration, "", StatusWarn, "there is none: only the embedded functions are offered", "onecall init")
	default:
		e.add(CheckConfiguration, path, StatusOK, fmt.Sprintf("%d sources", len(e.Catalog.Sources())), "")
	}
}

// faulty adds a fault of the configuration, or a warning, with its place in the file.
func (e *examination) faulty(status Status, f *fault.Error, remedy string) {
	subject := e.config.Path
	if f.Line > 0 {
		subject += fmt.Sprintf(":%d:%d", f.Line, f.Column)
	}
	if len(f.Nearest) > 0 {
		remedy = "did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	e.add(CheckConfiguration, subject, status, strings.TrimSpace(f.Message), remedy)
}

func (e *examination) warned(f *fault.Error) { e.faulty(StatusWarn, f, "") }

// running looks at what works only while it is open.
func (e *examination) running(ctx context.Context) {
	began := time.Now()
	steps.Await(ctx, e.Catalog, nil)
	for _, info := range e.Catalog.Sources() {
		e.source(&info, time.Since(began))
	}
	for _, f := range e.UnusedSettings() {
		e.warned(f)
	}
	e.tools()
	e.stores(ctx)
}

func (e *examination) source(info *steps.SourceInfo, waited time.Duration) {
	more := "onecall tools --verbose shows what it logs"
	if path := e.process.Config; path != "" {
		more = fmt.Sprintf("onecall tools --config %s --verbose shows what it logs", path)
	}
	offers := fmt.Sprintf("%d functions", len(info.Functions))
	switch {
	case info.State == steps.StateDisabled:
		e.add(CheckSource, info.Name, StatusOK, "disabled", "")
	case info.State == steps.StateReady || info.State == steps.StateIdle:
		if info.Error != nil {
			e.add(CheckSource, info.Name, StatusWarn, offers+"; "+info.Error.Message, "")
			return
		}
		e.add(CheckSource, info.Name, StatusOK, offers, "")
	case info.State == steps.StateStarting: // the examination was ended before the deadline
		e.add(CheckSource, info.Name, StatusFail, fmt.Sprintf("it has not started in %.1fs", waited.Seconds()), more)
	case info.Error == nil:
		e.add(CheckSource, info.Name, StatusFail, string(info.State), more)
	case info.Error.Code == fault.Unavailable:
		e.add(CheckSource, info.Name, StatusFail, info.Error.Message, more)
	default: // the message says what to do
		e.refused[info.Name] = info.Error.Code == fault.Denied
		e.add(CheckSource, info.Name, StatusFail, info.Error.Message, "")
	}
}

// commands looks for the programs of the servers, as a client that was started from a desktop would have them found. started: the servers are
// started as well, which tells of a program that is found nowhere.
func (e *examination) commands(started bool) {
	for i := range e.config.MCPServers {
		entry := &e.config.MCPServers[i]
		if entry.Config.Command == nil || entry.Config.Off() {
			continue
		}
		o := &mcpsource.Options{Command: *entry.Config.Command, Env: entry.Config.Env, Dir: config.Or(entry.Config.Cwd, "")}
		e.command(entry.Source(), o, started)
	}
}

func (e *examination) command(source string, o *mcpsource.Options, started bool) {
	desktop, here := mcpsource.FindProgram(o, mcpsource.DesktopPath()), mcpsource.FindProgram(o, os.Getenv("PATH"))
	switch {
	case desktop.Path == "" && here.Path == "" && started:
	case desktop.Path == "" && here.Path == "":
		e.add(CheckCommand, source, StatusFail, o.Command+" is not found", "install it, or write its whole path as command")
	case desktop.Path == "":
		e.add(CheckCommand, source, StatusWarn,
			o.Command+" is "+here.Path+" here, and a program that is started from a desktop does not find it", "write "+here.Path+" as command")
	case desktop.Added:
		e.add(CheckCommand, source, StatusOK,
			o.Command+" is "+desktop.Path+", in a folder that onecall adds to the PATH of a desktop program", "")
	default:
		e.add(CheckCommand, source, StatusOK, o.Command+" is "+desktop.Path, "")
	}
}

// logins looks at the logins to servers behind HTTP: that there is none is only wrong if its server asks for one.
func (e *examination) logins(ctx context.Context) {
	accounts, err := accountsOf(e.config, "")
	if err != nil {
		return // a fault of the configuration, which is reported
	}
	for i := range accounts {
		state, err := accounts[i].State(ctx)
		e.login(config.SourceName(accounts[i].Name), &state, err)
	}
}

func (e *examination) login(source string, state *login.State, err error) {
	again := "onecall auth login " + source
	until := state.Expires.UTC().Format(time.RFC3339)
	works := slices.ContainsFunc(e.findings, func(f Finding) bool {
		return f.Check == CheckSource && f.Subject == source && f.Status != StatusFail
	})
	switch {
	case err != nil:
		e.add(CheckLogin, source, StatusFail, "it cannot be read: "+fault.Message(err), again)
	case state.LoggedIn && e.refused[source]:
		e.add(CheckLogin, source, StatusFail, "there is one, and the server does not accept it", again)
	case state.LoggedIn && state.Renews:
		e.add(CheckLogin, source, StatusOK, "logged in, and renews itself", "")
	case state.LoggedIn && state.Expires.IsZero():
		e.add(CheckLogin, source, StatusOK, "logged in", "")
	case state.LoggedIn:
		e.add(CheckLogin, source, StatusOK, "logged in until "+until, "")
	case works:
		e.add(CheckLogin, source, StatusOK, "none, and the server works without", "")
	case !state.Expires.IsZero():
		e.add(CheckLogin, source, StatusFail, "it ended on "+until, again)
	case e.refused[source]:
		e.add(CheckLogin, source, StatusFail, "none, and the server asks for one", again)
	default:
		e.add(CheckLogin, source, StatusWarn, "none", again+", if the server asks for one")
	}
}

// stores looks at what onecall writes to.
func (e *examination) stores(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*lookTime)
	defer cancel()
	switch err := e.checkJournal(ctx); {
	case e.Journal == nil:
		e.add(CheckJournal, "", StatusWarn, "off: no run can be resumed, approved or undone", "journal: {store: sqlite}")
	case err != nil:
		e.add(CheckJournal, "", StatusFail, "it cannot be written, and calls that write are refused: "+fault.Message(err),
			"journal: {store: memory} does without, as long as one command runs")
	default:
		e.add(CheckJournal, "", StatusOK, config.Or(e.config.Journal.Store, "sqlite")+", writable", "")
	}
	if err := e.checkResults(ctx); err != nil {
		e.add(CheckResults, "", StatusFail, "large results cannot be kept: "+fault.Message(err),
			"results: {store: memory} does without, as long as one command runs")
	} else {
		e.add(CheckResults, "", StatusOK, config.Or(e.config.Results.Store, "disk")+", usable", "")
	}
}
