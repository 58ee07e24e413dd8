package app

import (
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/steps"
)

// toolLock compares the functions of MCP servers and OpenAPI services with the lock, wherever they are taken in.
type toolLock struct {
	app       *App
	enforce   bool
	file      *lock.File
	upstreams map[string]bool
}

// openToolLock reads the lock, if the configuration asks for it, and returns what admits functions; nil: all are served. What is wrong with
// the lock is added to o.faults. A replay calls nothing, and has the functions of its recording.
func (o *sourceOpener) openToolLock() func(source string, spec *steps.Spec) (string, bool) {
	mode := config.Or(o.config.ToolLock, "off")
	if mode == "off" || o.process.Unlocked || o.process.Replay != "" || o.process.NoSources {
		return nil
	}
	path := LockFile(o.config.Path)
	refuse := func(f *fault.Error) {
		o.faults = append(o.faults, o.config.FaultAt("/toolLock", fault.New(f.Code, "%s", f.Message)))
	}
	l, f := ReadLock(path)
	if f == nil && l != nil {
		f = o.LockConflict(path, l)
	}
	switch {
	case f != nil:
		refuse(f)
	case l == nil && mode == "enforce":
		refuse(fault.New(fault.BadRequest, "enforce needs a lock, and there is no %s: onecall lock --all writes it", path))
	case l == nil:
		f := fault.New(fault.BadRequest, "there is no %s, so nothing is compared: onecall lock --all writes it", path)
		o.warn(o.config.FaultAt("/toolLock", f))
	case mode == "enforce" && !l.All:
		refuse(fault.New(fault.BadRequest, "enforce needs a lock of all functions, and %s names only some: onecall lock --all", path))
	default:
		o.toolLock = &toolLock{app: o.App, enforce: mode == "enforce", file: l, upstreams: upstreamSources(o.config)}
		return o.toolLock.admit
	}
	return nil
}

// admit says how a function differs from its lock ("": it does not), and whether it is served. What comes with onecall, or stands in the
// configuration and its saved chains, cannot change by itself, and is not compared.
func (l *toolLock) admit(source string, spec *steps.Spec) (differs string, serves bool) {
	if !l.upstreams[source] {
		return "", true
	}
	locked := l.file.Find(spec.Name)
	if locked == nil {
		if !l.file.All {
			return "", true // the lock names only what saved chains and approvals need
		}
		return "the lock does not name it", !l.enforce
	}
	now := lock.Of(spec)
	if now.Digest == locked.Digest {
		return "", true
	}
	var parts []string
	for _, part := range []struct {
		name    string
		differs bool
	}{
		{"effect", now.Effect != locked.Effect},
		{"description", now.Description != locked.Description},
		{"arguments", !slices.Equal(now.Input, locked.Input)},
		{"result", !slices.Equal(now.Output, locked.Output)},
	} {
		if part.differs {
			parts = append(parts, part.name)
		}
	}
	return "another " + strings.Join(parts, ", "), !l.enforce
}

// guard refuses a call if its function, as the source lists it when the call is made, is not as the lock says: it may have changed since
// the chain was compiled, between two calls of one run.
func (l *toolLock) guard(spec *steps.Spec, call steps.Call) steps.Call {
	name := l.app.sourceOf(spec.Name)
	source := l.app.sources[name]
	if source == nil || spec.Saved != nil || l.app.personal[name] {
		return call
	}
	return func(ctx context.Context, args []byte) ([]byte, error) {
		if err := source.Settle(ctx); err != nil {
			return nil, err
		}
		if how := l.app.Catalog.Refuses(name, spec.Name); how != "" {
			f := fault.New(fault.Denied, "%s is not as it was accepted (%s), and is not called until onecall lock --accept %[1]s", spec.Name, how)
			f.Outcome = fault.NotSent
			return nil, f
		}
		return call(ctx, args)
	}
}

// lock reports the functions of a source that are not as the lock says.
func (e *examination) lock(info *steps.SourceInfo) {
	mode := config.Or(e.config.ToolLock, "off")
	if mode == "off" {
		return
	}
	if e.personal[info.Name] {
		text := "each caller has a list of its own, which no lock knows"
		if mode == "enforce" {
			text += ": none of its functions is served"
		}
		e.add(CheckLock, info.Name, StatusWarn, text, "")
		return
	}
	if text := info.DifferenceText(); text != "" {
		e.add(CheckLock, info.Name, StatusWarn, text, "onecall lock --dry-run prints what has changed, onecall lock --accept NAME accepts it")
	}
}
