package console

import (
	"cmp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// sourcesView is the page of sources.
type sourcesView struct {
	Sources []sourceView
	Flags   string // see Backend.Flags
}

// sourceView is a source that the viewer may know.
type sourceView struct {
	steps.SourceInfo
	Usable     int    // its functions that the viewer may use
	NeedsLogin bool   // it waits for someone to log in
	Credential string // what the viewer logs in to: the source, or one function
	Login      bool   // the viewer may log in to it
	Logout     bool   // the viewer has logged in to it, for its own calls
	Restarts   bool   // the viewer may restart it
}

// mustServe refuses the pages of sources to other consoles than a server's, whose sources start when they are needed: there is nothing to
// watch.
func (r *request) mustServe() error {
	if r.Serves {
		return nil
	}
	return fault.New(fault.NotSupported, "only the console of a server shows sources: onecall serve --http … --console")
}

// showSources shows the states of a server's sources.
func showSources(r *request) (*page, error) {
	if err := r.mustServe(); err != nil {
		return nil, err
	}
	calls, err := r.Open(r.Context())
	if err != nil {
		return nil, err
	}
	v := &sourcesView{Flags: r.Flags}
	view := r.view(calls)
	functions, restartOf := view.Registry(), r.restarter(calls)
	for _, info := range view.Sources() {
		s := sourceView{SourceInfo: info, Credential: cmp.Or(info.Needs, info.Name), Restarts: restartOf(info.Name) != nil,
			NeedsLogin: r.viewer.readsCauses() && info.State != steps.StateLocked && info.Error != nil && info.Error.Code == fault.Denied}
		if login := r.loginTo(calls, s.Credential); login != nil {
			s.Logout = login.Own && info.State != steps.StateLocked
			s.Login = login.Own && !s.Logout || !login.Own && s.NeedsLogin
		}
		for name := range info.Functions {
			if functions.Has(name) {
				s.Usable++
			}
		}
		v.Sources = append(v.Sources, s)
	}
	for _, name := range calls.OwnLogins {
		if spec := functionWith(functions, name); spec != nil {
			ready := steps.SourceInfo{Name: spec.Name, Status: steps.Status{State: steps.StateReady}}
			v.Sources = append(v.Sources, sourceView{SourceInfo: ready, Credential: name, Usable: 1, Logout: true})
		}
	}
	return &page{template: "sources", title: "Sources", data: v, live: liveSources}, nil
}

// restarter returns a function that returns what restarts a source, for those who act and are administrators of all its functions; nil:
// nothing does, or the viewer may not. Of a source whose functions are unknown, only an administrator of all functions is sure to be that.
func (r *request) restarter(calls *Calls) func(source string) func() int {
	if !r.viewer.Acts || r.viewer.Tier < steps.TierAdmin || calls.Restart == nil {
		return func(string) func() int { return nil }
	}
	if r.viewer.All {
		return calls.Restart
	}
	usable, all := r.view(calls).Registry(), map[string]bool{} // by source: the viewer may use all its functions
	for _, entry := range calls.Catalog.Registry().All() {
		spec := entry.Spec()
		before, known := all[spec.Source()]
		all[spec.Source()] = (before || !known) && usable.Has(spec.Name)
	}
	return func(source string) func() int {
		if !all[source] {
			return nil
		}
		return calls.Restart(source)
	}
}

// restartSource closes the connection to a source and opens it again.
func restartSource(r *request) (*page, error) {
	if err := r.mustServe(); err != nil {
		return nil, err
	}
	if err := r.mustAct(); err != nil {
		return nil, err
	}
	calls, err := r.Open(r.Context())
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	restart := r.restarter(calls)(name)
	if restart == nil {
		return nil, fault.New(fault.Denied, "there is no source %s that you may restart: that needs an administrator of all its functions, and "+
			"a server of mcpServers", fault.Quote(name))
	}
	ended := restart()
	r.log.InfoContext(r.Context(), "a source is restarted", "source", name, "caller", r.viewer.ID, "calls_ended", ended)
	return &page{redirect: "sources"}, nil
}
