package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

type moveArgs struct {
	From, To string
	IfMatch  *string
}

type moveResult struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (s *Source) move(ctx context.Context, a moveArgs) (*moveResult, error) {
	from, err := s.placeOf("from", a.From)
	if err != nil {
		return nil, err
	}
	to, err := s.placeOf("to", a.To)
	if err != nil {
		return nil, err
	}
	if from.root != to.root {
		return nil, to.denied("%q and %q are in different folders of fs.write: move within one", fault.Short(from.rel), fault.Short(to.rel))
	}
	if strings.HasPrefix(to.rel, from.rel+"/") {
		return nil, to.fault(fault.FunctionFailed, "%q is in %q itself", fault.Short(to.rel), fault.Short(from.rel))
	}
	end, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	c := &change{place: from, ifMatch: a.IfMatch, digest: true}
	before, err := c.readEither(ctx)
	if err != nil {
		return nil, err
	}
	if before.info == nil {
		return nil, s.missing(from)
	}
	switch _, err := to.root.Lstat(to.name); {
	case err == nil:
		return nil, to.fault(fault.FunctionFailed, "%q exists: remove it first, or move to another name", fault.Short(to.rel))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, to.failed(err)
	case !c.unchanged(&before):
		return nil, c.changed()
	case ctx.Err() != nil:
		return nil, unsent(ctx)
	}
	if err := reportMove(ctx, from, to, before.digest); err != nil {
		return nil, err
	}
	if err := from.root.Rename(from.name, to.name); err != nil {
		return nil, to.failed(err)
	}
	return &moveResult{from.rel, to.rel}, errors.Join(from.settle(), to.settle())
}

// readEither is read and check, of a folder too, which has no digest.
func (c *change) readEither(ctx context.Context) (version, error) {
	if info, err := c.root.Lstat(c.name); err == nil && info.IsDir() {
		if c.ifMatch != nil {
			return version{}, c.unmatched(fault.FunctionFailed, "%q is a folder: only files have a digest", fault.Short(c.rel))
		}
		return version{info: info}, nil
	}
	before, err := c.read(ctx, 0)
	if err == nil {
		err = c.check(&before)
	}
	return before, err
}

type removeArgs struct {
	Path    string
	UpTo    *string
	IfMatch *string
	Undo    string
}

type removeResult struct {
	Removed []string `json:"removed"`
}

func (s *Source) remove(ctx context.Context, a removeArgs) (*removeResult, error) {
	p, err := s.placeOf("path", a.Path)
	if err != nil {
		return nil, err
	}
	info, err := p.root.Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, s.missing(p)
	case err != nil:
		return nil, p.failed(err)
	case info.IsDir():
		return s.removeFolder(ctx, p, &a)
	case a.UpTo != nil:
		return nil, badArgument("upTo", "upTo goes with an empty folder, and %q is none", fault.Short(p.rel))
	}
	c := &change{place: p, ifMatch: a.IfMatch, content: a.Undo != noUndo, instead: insteadNoUndo}
	before, end, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	switch {
	case before.info == nil || !c.unchanged(&before):
		return nil, c.changed()
	case ctx.Err() != nil:
		return nil, unsent(ctx)
	}
	if a.Undo != noUndo {
		if err := c.undoRemove(ctx, &before); err != nil {
			return nil, err
		}
	}
	if err := p.root.Remove(p.name); err != nil {
		return nil, p.failed(err)
	}
	return &removeResult{[]string{p.rel}}, p.settle()
}

// removeFolder removes an empty folder, and those above it up to a.UpTo that are empty then.
func (s *Source) removeFolder(ctx context.Context, p *place, a *removeArgs) (*removeResult, error) {
	last := p
	if a.UpTo != nil {
		var err error
		if last, err = s.placeOf("upTo", *a.UpTo); err != nil {
			return nil, err
		}
		if last.root != p.root || !within(p.rel, last.rel) {
			return nil, badArgument("upTo", "%q is not above %q", fault.Short(last.rel), fault.Short(p.rel))
		}
	}
	if a.IfMatch != nil {
		return nil, badArgument("ifMatch", "%q is a folder: only files have a digest", fault.Short(p.rel))
	}
	end, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if a.Undo != noUndo {
		if err := reportUndo(ctx, "fs.mkdir", map[string]any{"path": p.rel}); err != nil {
			return nil, err
		}
	}
	result := &removeResult{}
	for at := *p; ; at.name, at.rel = path.Dir(at.name), path.Dir(at.rel) {
		if err := at.root.Remove(at.name); err != nil && len(result.Removed) == 0 {
			return nil, p.failed(err)
		} else if err != nil {
			break // not empty
		}
		result.Removed = append(result.Removed, at.rel)
		p = &place{argument: p.argument, rel: at.rel, name: at.name, root: at.root}
		if at.rel == last.rel {
			break
		}
	}
	return result, p.settle()
}

type mkdirArgs struct{ Path string }

type mkdirResult struct {
	Path string   `json:"path"`
	Made []string `json:"made"` // the topmost first; empty: the folder was there
}

func (s *Source) mkdir(ctx context.Context, a mkdirArgs) (*mkdirResult, error) {
	p, err := s.placeOf("path", a.Path)
	if err != nil {
		return nil, err
	}
	end, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var missing []place // the topmost last
	for at := *p; at.name != "."; at.name, at.rel = path.Dir(at.name), path.Dir(at.rel) {
		info, err := at.root.Lstat(at.name)
		if err == nil && !info.IsDir() {
			return nil, p.fault(fault.FunctionFailed, "%q is not a folder", fault.Short(at.rel))
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, p.failed(err)
		}
		missing = append(missing, at)
	}
	result := &mkdirResult{Path: p.rel, Made: []string{}}
	if len(missing) == 0 {
		return result, nil
	}
	top := &missing[len(missing)-1]
	if err := reportUndo(ctx, "fs.remove", map[string]any{"path": p.rel, "upTo": top.rel}); err != nil {
		return nil, err
	}
	for _, at := range slices.Backward(missing) {
		if err := at.root.Mkdir(at.name, 0o777); err != nil {
			for _, made := range missing[len(missing)-len(result.Made):] {
				_ = made.root.Remove(made.name) // what it holds by now is another program's, and stays
			}
			return nil, p.failed(err)
		}
		result.Made = append(result.Made, at.rel)
	}
	return result, top.settle()
}
