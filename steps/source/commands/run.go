package commands

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/procgroup"
)

// How long a program may take to end.
const (
	pipeGrace = time.Second // until its output is read to the end: a process that left the group may still hold the pipes

	// When its time is over, the caller waits 100 ms for the answer.
	termGrace        = 50 * time.Millisecond // to end after SIGTERM
	stoppedPipeGrace = 20 * time.Millisecond // until its output is read to the end
)

// program is a program that is ready to be started.
type program struct {
	command   *command
	path      string
	arguments []string
	folder    *os.File
	dir       string // the path of folder
}

// ended is what a program left when it ended.
type ended struct {
	state          *os.ProcessState
	stdout, stderr output
	stopped        *fault.Error // why it was stopped; nil: it ended by itself
}

// prepare finds the program and its folder, and makes its arguments from those of a call.
func (c *command) prepare(args []byte) (*program, *fault.Error) {
	given, values := gjson.ParseBytes(args), map[string][]string{}
	var f *fault.Error
	given.ForEach(func(name, value gjson.Result) bool {
		if a := c.args[name.Str]; a != nil {
			values[name.Str], f = a.texts(value)
		}
		return f == nil
	})
	if f != nil {
		return nil, f
	}
	p := &program{command: c}
	if p.path, f = findProgram(c.program); f != nil {
		return nil, f
	}
	rel := "."
	switch filled := c.dir.fill(values); {
	case len(filled) > 1:
		return nil, fault.New(fault.BadArguments, "the program has one working folder, and the call names %d", len(filled))
	case len(filled) == 1 && filled[0] != "":
		rel = filled[0]
	}
	given.ForEach(func(name, value gjson.Result) bool {
		if a := c.args[name.Str]; a != nil && a.path {
			f = c.source.checkPaths(rel, name.Str, values[name.Str], value.IsArray())
		}
		return f == nil
	})
	if f != nil {
		return nil, f
	}
	for i := range c.arguments {
		p.arguments = append(p.arguments, c.arguments[i].fill(values)...)
	}
	p.folder, f = c.source.openFolder(rel)
	p.dir = filepath.Join(c.source.rootPath, rel)
	return p, f
}

// findProgram returns the path of a program, which for a preset is looked for in the PATH.
func findProgram(name string) (string, *fault.Error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	where := "install it, or correct its path in the configuration"
	if !isPath(name) {
		where = "it is not in the PATH of onecall: install it"
	}
	f := fault.New(fault.Unavailable, "the program %s is not there: %s", fault.Short(name), where)
	if errors.Is(err, fs.ErrPermission) {
		f.Message = "the program " + fault.Short(name) + " may not be run: look at its permissions"
	}
	f.Err = err
	return "", f
}

// openFolder opens a working folder below the root.
func (s *Source) openFolder(rel string) (*os.File, *fault.Error) {
	folder, err := s.root.OpenFile(filepath.FromSlash(rel), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would make it wait
	if err == nil {
		info, statErr := folder.Stat()
		if statErr == nil && info.IsDir() {
			return folder, nil
		}
		folder.Close()
		err = syscall.ENOTDIR
	}
	return nil, folderFault(rel, err)
}

func folderFault(rel string, err error) *fault.Error {
	var f *fault.Error
	var errno syscall.Errno
	switch name := fault.Short(rel); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		f = fault.New(fault.FunctionFailed, "the working folder %q is no folder: name one below the root", name)
	case errors.Is(err, fs.ErrClosed):
		f = fault.New(fault.Unavailable, "the commands are closed")
	case errors.As(err, &errno):
		f = fault.New(fault.FunctionFailed, "the working folder %q cannot be opened: %s", name, errno.Error())
	default: // os.Root's own refusal, which has no exported name and is not a system error
		f = fault.New(fault.Denied, "the working folder %q leads out of the root of the commands", name)
	}
	f.Err = err
	return f
}

// checkPaths refuses paths of an argument that lead out of the root.
func (s *Source) checkPaths(folder, name string, paths []string, isList bool) *fault.Error {
	for i, path := range paths {
		if s.isInside(folder, path) {
			continue
		}
		f := fault.New(fault.Denied, "%q leads out of the root of the commands: give a path below the working folder", fault.Short(path))
		if f.At = fault.Key("", name); isList {
			f.At = fault.Index(f.At, i)
		}
		return f
	}
	return nil
}

// isInside reports whether a path, relative to the working folder, stays below the root by its text and by links. It may name something
// that does not exist.
func (s *Source) isInside(folder, path string) bool {
	if filepath.IsAbs(path) || !filepath.IsLocal(filepath.Join(folder, path)) {
		return false
	}
	_, err := s.root.Stat(filepath.FromSlash(folder + "/" + path))
	var errno syscall.Errno
	return err == nil || errors.As(err, &errno) || errors.Is(err, fs.ErrClosed) // os.Root's own refusal is none of these
}

// run starts the program and waits for its end. When ctx ends, it ends the program with all that it started.
func (p *program) run(ctx context.Context) (*ended, *fault.Error) {
	cmd := exec.Command(p.path, p.arguments...)
	cmd.Dir, cmd.Env = workingPath(p.folder, p.dir), p.command.env
	e := &ended{stdout: output{limit: p.command.maxOutput}, stderr: output{limit: p.command.maxOutput}}
	stdout, stderr, group, err := p.start(cmd, e)
	if err != nil {
		return nil, startFault(p.path, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the state says how it ended
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		e.stopped = p.stop(ctx, group, exited)
	}
	group.Kill() // what it left behind
	e.state = cmd.ProcessState
	grace := pipeGrace
	if e.stopped != nil {
		grace = stoppedPipeGrace
	}
	stdout.finish(grace)
	stderr.finish(grace)
	return e, nil
}

// stop ends the program because ctx ended. It returns why; nil: the program had ended already.
func (p *program) stop(ctx context.Context, group procgroup.Group, exited <-chan struct{}) *fault.Error {
	select {
	case <-exited:
		return nil
	default:
	}
	group.Terminate()
	select {
	case <-exited:
	case <-time.After(termGrace):
		group.Kill()
		<-exited
	}
	return stopFault(ctx, p.command.spec.Name)
}

// start starts cmd with pipes for its output, which are read into e, and with its bounds.
func (p *program) start(cmd *exec.Cmd, e *ended) (stdout, stderr *reader, group procgroup.Group, err error) {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, group, err
	}
	defer outWrite.Close()
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		outRead.Close()
		return nil, nil, group, err
	}
	defer errWrite.Close()
	cmd.Stdout, cmd.Stderr = outWrite, errWrite // without Stdin it reads the null device
	if group, err = procgroup.Start(cmd); err == nil {
		if err = p.command.limits.set(cmd.Process.Pid); err != nil {
			group.Kill()
			_ = cmd.Wait()
			err = &boundsError{err}
		}
	}
	if err != nil {
		outRead.Close()
		errRead.Close()
		return nil, nil, group, err
	}
	return read(outRead, &e.stdout), read(errRead, &e.stderr), group, nil
}

// boundsError is the error of a program whose bounds could not be set, so that it was killed.
type boundsError struct{ error }

// startFault returns the fault of a program that could not be started.
func startFault(path string, err error) *fault.Error {
	f := fault.New(fault.FunctionFailed, "the program %s could not be started: %s", fault.Short(path), cause(err))
	var bounds *boundsError
	switch {
	case errors.As(err, &bounds):
		f = fault.New(fault.Denied, "the memory and processor time of the program %s cannot be bounded, so it was killed: %s. "+
			"A program that runs as another user cannot be a command", fault.Short(path), cause(bounds.error))
		f.Outcome = fault.SentUnknown
	case errors.Is(err, syscall.E2BIG):
		f.Code, f.Message = fault.LimitExceeded, "the arguments are longer than the system allows: give fewer or shorter ones"
	}
	if f.Err = err; f.Outcome == "" {
		f.Outcome = fault.NotSent
	}
	return f
}

// cause returns the message of an error of the system, without the paths around it.
func cause(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return strings.TrimSpace(err.Error())
}

// stopFault returns the fault of a program that is stopped because ctx ended. It has no cause: a fault that is caused by the end of a
// context is replaced by what ended it, without what the program wrote.
func stopFault(ctx context.Context, name string) *fault.Error {
	if f, coded := fault.As(context.Cause(ctx)); coded && f != nil {
		copied := *f
		copied.Err = nil
		return &copied
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "%s did not end in time, and its program was ended: give it more time (timeoutMs), or less to do", name)
	}
	return fault.New(fault.Cancelled, "%s was cancelled, and its program ended", name)
}
