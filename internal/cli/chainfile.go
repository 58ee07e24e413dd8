package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// chainSuffix ends the name of a saved chain's file, linesSuffix that of a file with a chain in each line.
const chainSuffix, linesSuffix = ".chain.json", ".jsonl"

// stdinName names the standard input among the arguments of a command.
const stdinName = "-"

// chainFile is one argument of a command that takes chains.
type chainFile struct {
	name  string // as it was given
	path  string // "": the standard input
	lines bool   // a chain in each line
}

// findChains finds the files of all arguments: each is the path of a file, the name of a saved chain (NAME.chain.json in
// the working directory, else in its folder chains), or "-" for the standard input. Every argument that is none of these is
// told of in one error.
func findChains(args []string) ([]chainFile, error) {
	files := make([]chainFile, 0, len(args))
	var problems []string
	stdin := 0
	for _, arg := range args {
		file, err := findChain(arg)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if file.path == "" {
			stdin++
		}
		files = append(files, file)
	}
	if stdin > 1 && len(problems) == 0 {
		problems = append(problems, "the standard input can be read once only: name - once")
	}
	if len(problems) > 0 {
		return nil, unable("%s", strings.Join(problems, "; "))
	}
	return files, nil
}

func findChain(arg string) (chainFile, error) {
	if arg == stdinName {
		return chainFile{name: arg}, nil
	}
	paths := []string{arg}
	if !strings.ContainsAny(arg, `/\`) && arg != "" {
		paths = append(paths, arg+chainSuffix, filepath.Join("chains", arg+chainSuffix))
	}
	folder := false
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist) && path == arg:
			return chainFile{path: path}, errors.New(textfile.Printable(path) + " cannot be read: " + textfile.Cause(err).Error())
		case err != nil:
		case info.IsDir():
			folder = true
		default:
			return chainFile{name: arg, path: path, lines: strings.EqualFold(filepath.Ext(path), linesSuffix)}, nil
		}
	}
	message := "there is no chain file " + textfile.Printable(fault.Clip(arg, 200))
	if folder {
		message = textfile.Printable(arg) + " is a folder: name a chain file in it"
	} else if near := nearChains(arg); len(near) > 0 {
		message += ": did you mean " + strings.Join(near, ", ") + "?"
	}
	return chainFile{path: arg}, errors.New(message)
}

// nearChains names chain files that are spelt like an argument that is none.
func nearChains(arg string) []string {
	folder, base := filepath.Split(arg)
	folders := []string{folder}
	if folder == "" {
		folders = append(folders, "chains")
	}
	var names []string
	paths := map[string]string{}
	for _, folder := range folders {
		entries, _ := os.ReadDir(filepath.Clean(folder))
		for _, entry := range entries {
			name := entry.Name()
			if ext := filepath.Ext(name); entry.IsDir() || ext != ".json" && ext != linesSuffix {
				continue
			}
			short := strings.TrimSuffix(name, chainSuffix)
			if _, twice := paths[short]; !twice {
				names = append(names, short)
				paths[short] = filepath.Join(folder, name)
			}
		}
	}
	near := fault.Nearest(strings.TrimSuffix(base, chainSuffix), names, 3)
	for i, name := range near {
		near[i] = textfile.Printable(paths[name])
	}
	return near
}

// read gives the text of a file that holds one chain, and of a longer one limit+1 bytes, which no engine accepts. It ends
// with the context, also while the standard input gives nothing.
func (f *chainFile) read(ctx context.Context, stdin io.Reader, limit int64) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := f.readAll(stdin, limit)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, answered(exitInterrupted)
	}
}

func (f *chainFile) readAll(stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if f.path != "" {
		file, err := textfile.Open(f.path)
		if err != nil {
			return nil, unable("%s cannot be read: %v", f.name, textfile.Cause(err))
		}
		defer file.Close()
		in = file
	}
	text, err := textfile.ReadAll(in, limit)
	if err != nil {
		return nil, unable("%s cannot be read: %v", f.name, textfile.Cause(err))
	}
	return textfile.WithoutMark(text), nil
}
