// Package chainfile finds the chain files that a command line names, reads them as JSON, JSON with comments or YAML, and runs many chains
// side by side.
package chainfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// linesSuffix ends the name of a file with a chain in each line.
const linesSuffix = ".jsonl"

// stdinName is the argument that means the standard input.
const stdinName = "-"

// File is one argument of a command that takes chains.
type File struct {
	Name  string // the argument as given
	Path  string // "": the standard input
	Lines bool   // the file has a chain in each line
}

// Find finds the file of each argument: a path, the name of a saved chain (NAME.chain.json and the like in one of the folders), or "-"
// for the standard input. A single bad_request names every argument that is none of these.
func Find(args, folders []string) ([]File, error) {
	files := make([]File, 0, len(args))
	var problems []string
	stdin := 0
	for _, arg := range args {
		file, err := find(arg, folders)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if file.Path == "" {
			stdin++
		}
		files = append(files, file)
	}
	if stdin > 1 && len(problems) == 0 {
		problems = append(problems, "the standard input can be read once only: name - once")
	}
	if len(problems) > 0 {
		return nil, fault.New(fault.BadRequest, "%s", strings.Join(problems, "; "))
	}
	return files, nil
}

// savedPrefix begins the names of the functions of saved chains.
const savedPrefix = "chain."

func find(arg string, folders []string) (File, error) {
	if arg == stdinName {
		return File{Name: arg}, nil
	}
	paths := []string{arg}
	if !strings.ContainsAny(arg, `/\`) && arg != "" {
		for _, folder := range folders {
			path := cmp.Or(InFolder(folder, arg), InFolder(folder, strings.TrimPrefix(arg, savedPrefix)))
			if path != "" && !slices.ContainsFunc(paths[1:], func(other string) bool { return sameFile(path, other) }) {
				paths = append(paths, path)
			}
		}
		if _, err := os.Stat(arg); err != nil && len(paths) > 2 { // the arguments might be meant for the other file
			return File{Path: arg}, fmt.Errorf("%s may be %s: name the file", textfile.Printable(arg), strings.Join(paths[1:], " or "))
		}
	}
	folder := false
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist) && path == arg:
			return File{Path: path}, errors.New(textfile.Printable(path) + " cannot be read: " + textfile.Cause(err).Error())
		case err != nil:
		case info.IsDir():
			folder = true
		default:
			return File{Name: arg, Path: path, Lines: strings.EqualFold(filepath.Ext(path), linesSuffix)}, nil
		}
	}
	message := "there is no chain file " + textfile.Printable(fault.Clip(arg, 200))
	if folder {
		message = textfile.Printable(arg) + " is a folder: name a chain file in it"
	} else if near := similarChains(arg, folders); len(near) > 0 {
		message += ": did you mean " + strings.Join(near, ", ") + "?"
	} else if len(paths) == 1 && len(folders) > 0 && arg != "" && !strings.ContainsAny(arg, `/\\`) {
		message += ", and no saved chain of this name; " + knownNames(folders)
	}
	return File{Path: arg}, errors.New(message)
}

// sameFile reports whether two paths name the same existing file. The paths themselves may differ: one may be relative, the other absolute.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// knownNames lists the saved chains, and the chain files of the working directory, for a message.
func knownNames(folders []string) string {
	const maxShown = 10
	var here, saved []string
	for _, folder := range folders {
		list, _ := List(cmp.Or(folder, "."))
		for _, file := range list {
			if name := textfile.Printable(file.Name); folder == "" {
				here = append(here, name)
			} else {
				saved = append(saved, name)
			}
		}
	}
	var parts []string
	for _, kind := range []struct {
		what  string
		names []string
	}{{"saved are ", saved}, {"chain files here are ", here}} {
		slices.Sort(kind.names)
		names := slices.Compact(kind.names)
		switch n := len(names); {
		case n > maxShown:
			parts = append(parts, fmt.Sprintf("%s%s and %d more", kind.what, strings.Join(names[:maxShown], ", "), n-maxShown))
		case n > 0:
			parts = append(parts, kind.what+strings.Join(names, ", "))
		}
	}
	if len(saved) == 0 {
		parts = append(parts, "none is saved: onecall new NAME writes one to begin with")
	}
	return strings.Join(parts, "; ")
}

// similarChains returns the paths of at most three chain files with names similar to arg, the most similar first.
func similarChains(arg string, folders []string) []string {
	folder, base := filepath.Split(arg)
	if folder != "" {
		folders = []string{folder}
	}
	var names []string
	paths := map[string]string{}
	for _, folder := range folders {
		entries, _ := os.ReadDir(filepath.Clean(folder))
		for _, entry := range entries {
			name := entry.Name()
			if ext := filepath.Ext(name); entry.IsDir() || ext != ".json" && ext != linesSuffix && NameOf(name) == "" {
				continue
			}
			short := cmp.Or(NameOf(name), name)
			if _, isListed := paths[short]; !isListed {
				names = append(names, short)
				paths[short] = filepath.Join(folder, name)
			}
		}
	}
	near := fault.Nearest(cmp.Or(NameOf(base), base), names, 3)
	for i, name := range near {
		near[i] = textfile.Printable(paths[name])
	}
	return near
}

// Read returns the entry of a file with one chain, cut to limit+1 bytes, which no engine accepts. It also returns when the context ends
// while the standard input is silent. Errors: bad_request, and the context's.
func (f *File) Read(ctx context.Context, stdin io.Reader, limit int64) (*Entry, error) {
	type result struct {
		e   *Entry
		err error
	}
	done := make(chan result, 1)
	go func() {
		e, err := f.readAll(stdin, limit)
		done <- result{e, err}
	}()
	select {
	case r := <-done:
		return r.e, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *File) readAll(stdin io.Reader, limit int64) (*Entry, error) {
	in := stdin
	if f.Path != "" {
		file, err := textfile.Open(f.Path)
		if err != nil {
			return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", f.Name, textfile.Cause(err))
		}
		defer file.Close()
		in = file
	}
	text, err := textfile.ReadAll(in, limit)
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", f.Name, textfile.Cause(err))
	}
	e := &Entry{File: f, Read: int64(len(text)), Written: textfile.WithoutMark(text)}
	if e.text, e.Faults = Parse(f.Path, e.Written); len(e.Faults) == 0 {
		e.Request = e.text.JSON
	}
	return e, nil
}

// Locate sets the lines and columns of the chain's faults in the file.
func (e *Entry) Locate(faults []*fault.Error) {
	if e.text == nil { // a line of a batch
		e.text = &Text{JSON: e.Request}
	}
	e.text.Locate(faults)
}
