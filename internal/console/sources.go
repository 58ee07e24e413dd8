package console

import (
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
	Usable     int  // its functions that the viewer may use
	NeedsLogin bool // it waits for someone to log in
}

// showSources shows the states of a server's sources. The sources of other consoles start when they are needed: there is nothing to watch.
func showSources(r *request) (*page, error) {
	if !r.Serves {
		return nil, fault.New(fault.NotSupported, "only the console of a server shows sources: onecall serve --http … --console")
	}
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	v := &sourcesView{Flags: r.Flags}
	functions := view.Registry()
	for _, info := range view.Sources() {
		s := sourceView{SourceInfo: info, NeedsLogin: r.viewer.readsCauses() && info.Error != nil && info.Error.Code == fault.Denied}
		for name := range info.Functions {
			if functions.Has(name) {
				s.Usable++
			}
		}
		v.Sources = append(v.Sources, s)
	}
	return &page{template: "sources", title: "Sources", data: v}, nil
}
