// Package files offers the embedded file functions. fs.list, fs.tree, fs.find, fs.grep, fs.cat and fs.stat read, only below one root
// folder; fs.write, fs.edit, fs.move, fs.remove and fs.mkdir change what is in the folders of Options.Write. Nothing outside can be reached
// by "..", absolute paths or symbolic links, even if the tree changes meanwhile (os.Root). FIFOs, sockets and devices are never opened.
//
// By default fs.tree, fs.find and fs.grep skip hidden files and files that a .gitignore names. fs.grep matches line by line with Go's RE2
// syntax and counts matching lines. Lists come in pages: an incomplete result says "truncated" and has the "next" offset, and its
// counts are the true totals.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// The defaults of Options.
const (
	defaultMaxFileBytes   = 16 << 20
	defaultMaxResultBytes = 32 << 20
	defaultMaxKeptBytes   = 64 << 20
)

// Options say which files the functions see and how much they hold in memory. nil and the zero value work.
type Options struct {
	// Root is the folder that contains all files; "" is the working directory.
	Root string
	// MaxFileBytes bounds how much of one file is held in memory: fs.cat reads a larger file only by head, tail or from and
	// to, and fs.grep stops reading a file at a longer line. 0: 16 MiB; minimum 1024.
	MaxFileBytes int64
	// MaxResultBytes bounds one page of fs.grep: its text, and some bytes for each line. A page ends when it reaches the bound, and
	// says where the next one begins. 0: 32 MiB; minimum 1024.
	MaxResultBytes int64
	// Write has the folders whose contents may be changed, as paths in the root; "." is the root itself. nil: only reading is offered.
	Write []string
	// Guard has paths that are not changed, nor what is below them, although Write opens their folder.
	Guard []string
	// MaxKeptBytes bounds the content that a change keeps for its undo, and that it writes. 0: 64 MiB; minimum 1.
	MaxKeptBytes int64
}

// minBytes is the smallest bound in bytes that Options accept, so that a line fits.
const minBytes = 1024

// Source offers the file functions. It implements steps.Source.
type Source struct {
	root           *os.Root
	rootPaths      []string // absolute paths of the root: as configured, and with links resolved if that differs
	maxFileBytes   int64
	maxResultBytes int64

	writes       []writeRoot
	guarded      []string // paths relative to the root
	maxKeptBytes int64
	changing     chan struct{} // holds an element while a change is made
}

// New opens the root folder. It fails with bad_request if that is not a readable folder, one of Write is none in it, or a bound is too
// small. The caller closes the source.
func New(o *Options) (*Source, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Source{maxFileBytes: o.MaxFileBytes, maxResultBytes: o.MaxResultBytes, maxKeptBytes: o.MaxKeptBytes,
		changing: make(chan struct{}, 1)}
	if s.maxFileBytes == 0 {
		s.maxFileBytes = defaultMaxFileBytes
	}
	if s.maxResultBytes == 0 {
		s.maxResultBytes = defaultMaxResultBytes
	}
	if s.maxKeptBytes == 0 {
		s.maxKeptBytes = defaultMaxKeptBytes
	}
	if min(s.maxFileBytes, s.maxResultBytes) < minBytes || s.maxKeptBytes < 1 {
		return nil, fault.New(fault.BadRequest, "MaxFileBytes and MaxResultBytes of the file functions must be at least %d bytes, "+
			"MaxKeptBytes at least 1, or 0 for the default", minBytes)
	}
	name := o.Root
	if name == "" {
		name = "."
	}
	absolute, err := filepath.Abs(name)
	if err == nil {
		s.root, err = os.OpenRoot(absolute)
	}
	if err != nil {
		f := fault.New(fault.BadRequest, "the root of the file functions, %q, is not a folder that can be read", name)
		f.At, f.Err = "/root", err
		return nil, f
	}
	s.rootPaths = append(s.rootPaths, absolute)
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil && resolved != absolute {
		s.rootPaths = append(s.rootPaths, resolved)
	}
	if err := s.openWrites(o); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the root folder; later calls fail with unavailable.
func (s *Source) Close() error {
	err := s.root.Close()
	for _, w := range s.writes {
		err = errors.Join(err, w.root.Close())
	}
	return err
}

// Functions returns the functions, in the order in which they are listed.
func (s *Source) Functions() []steps.Function {
	calls := map[string]steps.Call{
		"fs.list": call(s.list, listArgs{Path: ".", Depth: 1, Limit: defaultPage}),
		"fs.find": call(s.find, findArgs{Path: ".", Type: "file", Limit: defaultPage}),
		"fs.tree": call(s.tree, treeArgs{Path: ".", Depth: defaultTreeDepth, Limit: defaultPage}),
		"fs.stat": call(s.stat, statArgs{}),
		"fs.grep": call(s.grep, grepArgs{Path: ".", Limit: defaultPage}),
		"fs.cat":  call(s.cat, catArgs{}),
	}
	functions := slices.Clone(functions)
	if len(s.writes) > 0 {
		functions = append(functions, changeFunctions...)
		maps.Copy(calls, map[string]steps.Call{
			"fs.write": s.callWrite, "fs.edit": call(s.edit, editArgs{Count: 1}), "fs.move": call(s.move, moveArgs{}),
			"fs.remove": call(s.remove, removeArgs{}), "fs.mkdir": call(s.mkdir, mkdirArgs{}),
		})
	}
	for i := range functions {
		functions[i].Call, functions[i].Check = calls[functions[i].Name], checks[functions[i].Name]
	}
	return functions
}

// Changing returns the spec of a function that changes files, which a source has if Options.Write opens a folder; nil: name is no such
// function.
func Changing(name string) *steps.Spec {
	for i := range changeFunctions {
		if spec := &changeFunctions[i].Spec; steps.FoldName(spec.Name) == steps.FoldName(name) {
			copied := *spec
			return &copied
		}
	}
	return nil
}

// call converts a typed call to a raw one. args start as the defaults, and the result is encoded as compact JSON.
func call[A, R any](typed func(context.Context, A) (R, error), defaults A) steps.Call {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		a := defaults
		if err := decode(args, &a); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, contextFault(err)
		}
		result, err := typed(ctx, a)
		if err != nil {
			return nil, err
		}
		if raw, ok := any(result).(json.RawMessage); ok {
			return raw, nil
		}
		return encode(result)
	}
}
