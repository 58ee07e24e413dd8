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
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// Finding is the result of one check.
type Finding struct {
	Check   Check  `json:"check"`
	Subject string `json:"subject,omitempty"` // the source, client or file that was checked; "": the check has only one subject
	Status  Status `json:"status"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"` // a command or a change to make; "": none is needed, or the message has it
}

// Check is the kind of thing that was checked.
type Check string

// The checks.
const (
	CheckConfiguration Check = "configuration"
	CheckSecrets       Check = "secrets" // which variables' values are hidden
	CheckSource        Check = "source"
	CheckCommand       Check = "command" // the command of a stdio server
	CheckLogin         Check = "login"
	CheckTools         Check = "tools" // the list of tools that clients get
	CheckJournal       Check = "journal"
	CheckResults       Check = "results" // the store of results
	CheckClient        Check = "client"
	CheckLock          Check = "lock" // functions that are not as the lock says
)

// Status is the severity of a finding.
type Status string

// The statuses.
const (
	StatusOK   Status = "ok"
	StatusWarn Status = "warn" // it works, but not as well as it could
	StatusFail Status = "fail"
)

// Examine checks a configuration and everything that it needs. It starts the sources and waits for each within the source's own deadline.
// Findings contain no secrets. If the configuration has faults, only checks that start nothing are run.
func Examine(ctx context.Context, o *Options) []Finding {
	warnings := &warningCollector{Reporter: o.Reporter}
	options := *o
	options.Reporter, options.List = warnings, true
	p := newProcess(&options, serverTraits{examine: true})
	a, err := p.open(nil)
	e := &examination{App: a, refused: map[string]bool{}}
	e.configuration(err)
	e.secrets()
	e.commands(err == nil)
	if err == nil {
		e.checkRunning(ctx)
	} else {
		e.add(CheckSource, "", StatusWarn, "none was started, because the configuration has faults",
			"correct the faults, then run onecall doctor again")
	}
	e.logins(ctx)
	for _, f := range warnings.warnings() {
		e.addWarning(f)
	}
	_ = errors.Join(a.close(), p.close()) // only opened for the checks
	return e.findings
}

// warningCollector keeps the warnings of a configuration.
type warningCollector struct {
	Reporter
	mu   sync.Mutex
	list []*fault.Error
}

// Warn implements Reporter.
func (c *warningCollector) Warn(f *fault.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, f)
}

func (c *warningCollector) warnings() []*fault.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// maxMessage is the maximum length in bytes of a finding's message, unless Verbose is set: it may quote the last output of a server.
const maxMessage = 500

// examination collects findings about an app. If the configuration has faults, the app consists of only its configuration.
type examination struct {
	*App
	findings []Finding
	refused  map[string]bool // sources that denied access
}

func (e *examination) add(check Check, subject string, status Status, message, remedy string) {
	redactor := e.process.Redactor
	message = redactor.Text(strings.TrimSuffix(message, "."))
	if !e.process.Verbose {
		message = fault.Clip(message, maxMessage)
	}
	e.findings = append(e.findings, Finding{check, subject, status, message, redactor.Text(remedy)})
}

func (e *examination) configuration(err error) {
	var refused *config.Error
	switch path := e.config.Path; {
	case errors.As(err, &refused):
		for _, f := range refused.Faults {
			e.addFault(StatusFail, f)
		}
	case err != nil:
		e.add(CheckConfiguration, path, StatusFail, fault.Message(err), "")
	case path == "":
		e.add(CheckConfiguration, "", StatusWarn, "there is none: only embedded functions and those of saved chains are offered", "onecall init")
	default:
		e.add(CheckConfiguration, path, StatusOK, fmt.Sprintf("%d sources", len(e.Catalog.Sources())), "")
	}
}

// secrets names the variables of the configuration whose values are hidden, and those whose values are not.
func (e *examination) secrets() {
	var hidden, shown []string
	for _, v := range e.config.Variables {
		if v.Secret {
			hidden = append(hidden, v.Name)
		} else {
			shown = append(shown, v.Name)
		}
	}
	if len(hidden) > 0 {
		e.add(CheckSecrets, "", StatusOK, "hidden in answers and logs: "+strings.Join(hidden, ", "), "")
	}
	if len(shown) > 0 {
		e.add(CheckSecrets, "", StatusOK, "not hidden: "+strings.Join(shown, ", ")+" (those that are secret belong in the list secrets)", "")
	}
}

// addFault adds a fault or a warning of the configuration with its position in the file.
func (e *examination) addFault(status Status, f *fault.Error) {
	subject, remedy := e.config.Path, ""
	if f.Line > 0 {
		subject += fmt.Sprintf(":%d:%d", f.Line, f.Column)
	}
	if len(f.Nearest) > 0 && !chainfile.Mentions(f.Message, f.Nearest[0]) {
		remedy = "did you mean " + strings.Join(f.Nearest, ", ") + "?"
	}
	e.add(CheckConfiguration, subject, status, strings.TrimSpace(f.Message), remedy)
}

// addWarning adds a warning of the configuration. One about a saved chain that cannot be used is a failure.
func (e *examination) addWarning(f *fault.Error) {
	status := StatusWarn
	if slices.ContainsFunc(e.BrokenChains(), func(broken *fault.Error) bool { return broken.Message == f.Message }) {
		status = StatusFail
	}
	e.addFault(status, f)
}

// checkRunning makes the checks that need a running app: of sources, settings, the list of tools and the stores.
func (e *examination) checkRunning(ctx context.Context) {
	began := time.Now()
	steps.Await(ctx, e.Catalog, nil)
	for _, info := range e.Catalog.Sources() {
		e.source(&info, time.Since(began))
		e.lock(&info)
	}
	for _, f := range e.AwayChains() {
		if errors.Is(f, steps.ErrCredential) { // else the fault is that of the source
			e.add(CheckSource, steps.ChainSource, StatusOK, f.Message, "")
		}
	}
	for _, f := range e.Suspects() {
		e.addWarning(f)
	}
	e.tools()
	e.stores(ctx)
}

func (e *examination) source(info *steps.SourceInfo, waited time.Duration) {
	remedy := "onecall tools --verbose shows what it logs"
	if path := e.process.Config; path != "" {
		remedy = fmt.Sprintf("onecall tools --config %s --verbose shows what it logs", path)
	}
	address, isDocument, isFile := e.address(info.Name)
	switch {
	case isFile:
		remedy = "check " + address
	case address != "":
		remedy = "check " + address + ", and whether this machine reaches it"
	}
	offers := fmt.Sprintf("%d functions", len(info.Functions))
	if len(info.Functions) == 1 {
		offers = "1 function"
	}
	if e.credentials != nil && e.credentials.Missing(info.Name) != nil {
		offers += ", called with each caller's own credential"
	}
	switch {
	case info.State == steps.StateDisabled:
		e.add(CheckSource, info.Name, StatusOK, "disabled", "")
	case info.State == steps.StateLocked:
		e.add(CheckSource, info.Name, StatusOK, "called with each caller's own credential, which also says what functions it has: not looked at", "")
	case info.State == steps.StateReady || info.State == steps.StateIdle:
		if info.Error != nil {
			e.add(CheckSource, info.Name, StatusWarn, offers+"; "+info.Error.Message, "")
			return
		}
		e.add(CheckSource, info.Name, StatusOK, offers, "")
	case info.State == steps.StateStarting: // ctx ended before the deadline
		e.add(CheckSource, info.Name, StatusFail, fmt.Sprintf("it did not start within %.1fs", waited.Seconds()), remedy)
	case info.Error == nil:
		e.add(CheckSource, info.Name, StatusFail, string(info.State), remedy)
	case info.Error.Code == fault.Unavailable:
		e.add(CheckSource, info.Name, StatusFail, info.Error.Message, remedy)
	case isDocument && info.Error.Code == fault.BadRequest:
		e.add(CheckSource, info.Name, StatusFail, info.Error.Message, "check "+address)
	default: // the message contains the remedy
		e.refused[info.Name] = info.Error.Code == fault.Denied
		e.add(CheckSource, info.Name, StatusFail, info.Error.Message, "")
	}
}

// address returns the name of the setting that holds a source's address; "": the source has none. isDocument reports whether it is the
// address of an OpenAPI document, and isFile whether it is the path of one.
func (e *examination) address(source string) (setting string, isDocument, isFile bool) {
	for i := range e.config.OpenAPI {
		if entry := &e.config.OpenAPI[i]; entry.Source() == source {
			return "openapi." + entry.Name + ".spec", true, !strings.Contains(config.Or(entry.Config.Spec, ""), "://")
		}
	}
	for i := range e.config.MCPServers {
		if entry := &e.config.MCPServers[i]; entry.Source() == source && entry.Config.URL != nil {
			return "mcpServers." + entry.Name + ".url", false, false
		}
	}
	return "", false, false
}

// commands looks up the programs of the stdio servers with the PATH of this shell and with that of a desktop client. If started is set,
// it reports no programs that are missing from both: the attempt to start their servers reports them.
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
	onDesktop, inShell := mcpsource.FindProgram(o, mcpsource.DesktopPath()), mcpsource.FindProgram(o, os.Getenv("PATH"))
	switch {
	case onDesktop.Path == "" && inShell.Path == "" && started:
	case onDesktop.Path == "" && inShell.Path == "":
		e.add(CheckCommand, source, StatusFail, o.Command+" is not found", "install it, or write its whole path as command")
	case onDesktop.Path == "":
		e.add(CheckCommand, source, StatusWarn,
			o.Command+" is "+inShell.Path+" here; a desktop app does not find it", "write "+inShell.Path+" as command")
	case onDesktop.Added:
		e.add(CheckCommand, source, StatusOK,
			o.Command+" is "+onDesktop.Path+", in a folder that onecall adds to the PATH of a desktop program", "")
	default:
		e.add(CheckCommand, source, StatusOK, o.Command+" is "+onDesktop.Path, "")
	}
}

// logins checks the logins to HTTP servers. A missing login is wrong only if the server requires one.
func (e *examination) logins(ctx context.Context) {
	accounts, err := accountsOf(e.config, "")
	if err != nil {
		return // already reported as a fault of the configuration
	}
	for i := range accounts {
		matches := func(m config.TableEntry[config.MCPServer]) bool {
			return m.Name == accounts[i].Name && hasCredentials(&m.Config)
		}
		if slices.ContainsFunc(e.config.MCPServers, matches) {
			continue
		}
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

// records checks that the journal, which can be written, is not damaged and has the key that its runs were written with.
func (e *examination) records(ctx context.Context) {
	where := config.Or(e.config.Journal.Store, "sqlite") + ", writable"
	switch err := e.Journal.Examine(ctx); {
	case errors.Is(err, context.DeadlineExceeded):
		e.add(CheckJournal, "", StatusWarn, where+"; it is too large to be checked as a whole in this time", "")
	case err != nil:
		e.add(CheckJournal, "", StatusFail, fault.Message(err), "")
	default:
		e.add(CheckJournal, "", StatusOK, where, "")
	}
}

// stores checks the journal and the store of results.
func (e *examination) stores(ctx context.Context) {
	// Longer than a store waits for a connection or a lock (5 s at most), because its own error then says more.
	ctx, cancel := context.WithTimeout(ctx, 5*checkTimeout)
	defer cancel()
	switch err := e.checkJournal(ctx); {
	case e.Journal == nil:
		e.add(CheckJournal, "", StatusWarn, "off: no run can be resumed, approved or undone", "journal: {store: sqlite}")
	case err != nil:
		e.add(CheckJournal, "", StatusFail, "it cannot be written, and calls that write are refused: "+fault.Message(err),
			"journal: {store: memory} works without it, and remembers runs only while a command runs")
	default:
		e.records(ctx)
	}
	if err := e.checkResults(ctx); err != nil {
		message := fault.Message(err)
		// The message is for agents; the cause names the server.
		if cause := errors.Unwrap(err); cause != nil && fault.CodeOf(err) == fault.Unavailable {
			message = cause.Error()
		}
		e.add(CheckResults, "", StatusFail, "large results cannot be kept: "+message,
			"results: {store: memory} works without it, and keeps results only while a command runs")
	} else {
		e.add(CheckResults, "", StatusOK, config.Or(e.config.Results.Store, "disk")+", usable", "")
	}
}
