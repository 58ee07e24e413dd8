package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// linesSuffix ends the name of a file with a chain in each line.
const linesSuffix = ".jsonl"

// stdinName names the standard input among the arguments of a command.
const stdinName = "-"

// chainFile is one argument of a command that takes chains.
type chainFile struct {
	name  string // as it was given
	path  string // "": the standard input
	lines bool   // a chain in each line
}

// findChains finds the files of all arguments: each is the path of a file, the name of a saved chain (NAME.chain.json and the like in
// the working directory, in its folder chains, or in the folder chains beside the configuration), or "-" for the standard
// input. Every argument that is none of these is told of in one error.
func (c *cli) findChains(args []string) ([]chainFile, error) {
	folders := c.chainFolders()
	files := make([]chainFile, 0, len(args))
	var problems []string
	stdin := 0
	for _, arg := range args {
		file, err := findChain(arg, folders)
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

// chainFolders are where saved chains are looked for.
func (c *cli) chainFolders() []string {
	folders := []string{"", app.ChainsFolder("")}
	path, _ := config.Find(c.configPath) // what is wrong with it is told where it is loaded
	if beside := app.ChainsFolder(path); beside != folders[1] {
		folders = append(folders, beside)
	}
	return folders
}

func findChain(arg string, folders []string) (chainFile, error) {
	if arg == stdinName {
		return chainFile{name: arg}, nil
	}
	paths := []string{arg}
	if !strings.ContainsAny(arg, `/\`) && arg != "" {
		for _, folder := range folders {
			if path := chainfile.Find(folder, arg); path != "" {
				paths = append(paths, path)
			}
		}
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
	} else if near := nearChains(arg, folders); len(near) > 0 {
		message += ": did you mean " + strings.Join(near, ", ") + "?"
	}
	return chainFile{path: arg}, errors.New(message)
}

// nearChains names chain files that are spelt like an argument that is none.
func nearChains(arg string, folders []string) []string {
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
			if ext := filepath.Ext(name); entry.IsDir() || ext != ".json" && ext != linesSuffix && chainfile.NameOf(name) == "" {
				continue
			}
			short := cmp.Or(chainfile.NameOf(name), name)
			if _, twice := paths[short]; !twice {
				names = append(names, short)
				paths[short] = filepath.Join(folder, name)
			}
		}
	}
	near := fault.Nearest(cmp.Or(chainfile.NameOf(base), base), names, 3)
	for i, name := range near {
		near[i] = textfile.Printable(paths[name])
	}
	return near
}

// read gives the entry of a file that holds one chain, and of a longer one limit+1 bytes, which no engine accepts. It ends
// with the context, also while the standard input gives nothing.
func (f *chainFile) read(ctx context.Context, stdin io.Reader, limit int64) (*entry, error) {
	type result struct {
		e   *entry
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
		return nil, answered(exitInterrupted)
	}
}

func (f *chainFile) readAll(stdin io.Reader, limit int64) (*entry, error) {
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
	e := &entry{file: f, read: int64(len(text)), written: textfile.WithoutMark(text)}
	if e.text, e.faults = chainfile.Parse(f.path, e.written); len(e.faults) == 0 {
		e.request = e.text.JSON
	}
	return e, nil
}

// answer answers a chain. What is wrong with it stands where it is in the file.
func (e *entry) run(ctx context.Context, a *app.App, caller *chain.Caller) *chain.Answer {
	if len(e.faults) > 0 {
		return a.Engine.Refuse(ctx, e.faults, caller)
	}
	answer := a.Run(ctx, e.request, caller)
	e.text.Locate(answer.Faults)
	return answer
}
