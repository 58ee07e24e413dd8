package app

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/shape"
)

// openShapes opens the store of result shapes unless it is turned off. A replay neither learns nor shows shapes, so that its answers
// depend on the recording alone.
func (o *sourceOpener) openShapes() {
	p := o.process
	if config.Or(o.config.Shapes, "on") == "off" || p.Replay != "" {
		return
	}
	if p.shapes == nil {
		path := ""
		if folder := stateFolder(); folder != "" {
			path = filepath.Join(folder, "onecall", "shapes.json")
		}
		p.shapes = shape.Open(&shape.Options{Path: path, Warn: p.warnRedacted})
	}
	o.shapes, o.identities = p.shapes, o.sourceIdentities()
}

// sourceIdentities returns, by the name of a source or of an HTTP endpoint's function, what identifies it: its program or address.
// It leaves out secrets, and settings that may change while the source stays the same.
func (o *sourceOpener) sourceIdentities() map[string]string {
	identities := map[string]string{}
	add := func(kind, name string, settings ...string) {
		for i, text := range settings {
			settings[i] = o.scrubber.Text(text)
		}
		identities[name] = kind + " " + name + " " + fingerprint(settings)
	}
	for i := range o.config.MCPServers {
		c := &o.config.MCPServers[i].Config
		add("server", o.config.MCPServers[i].Source(),
			append([]string{config.Or(c.Command, ""), config.Or(c.Cwd, ""), config.Or(c.URL, "")}, c.Args...)...)
	}
	for i := range o.config.OpenAPI {
		c := &o.config.OpenAPI[i].Config
		add("openapi", o.config.OpenAPI[i].Source(), config.Or(c.Spec, ""), config.Or(c.BaseURL, ""))
	}
	for _, endpoint := range o.config.HTTP.Endpoints {
		c := endpoint.Config
		add("endpoint", "http."+endpoint.Name, config.Or(c.Method, ""), config.Or(c.URL, ""), config.Or(c.Result, ""))
	}
	return identities
}

// learnShapes returns a registry that learns shapes from the results of its functions; r itself if shapes are off.
func (a *App) learnShapes(r *steps.Registry) *steps.Registry {
	if a.shapes == nil {
		return r
	}
	return a.shapes.Learn(r, func(spec *steps.Spec) string {
		if spec.Credential != "" { // what one caller sees is not shown to others
			return ""
		}
		name := a.settings.Original(spec.Name)
		source := a.identities[name]
		if source == "" {
			source = a.identities[(&steps.Spec{Name: name}).Source()]
		}
		if source == "" { // embedded: the caller determines the result
			return ""
		}
		return source + " " + name
	})
}

// stateFolder returns the user's folder for application state (XDG_STATE_HOME); "": there is none.
func stateFolder() string {
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return folder
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		folder, _ := os.UserConfigDir()
		return folder
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state")
}
