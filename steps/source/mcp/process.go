package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/procgroup"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// How long a server may take to end.
const (
	exitGrace      = 2 * time.Second        // to exit after its stdin is closed
	quickExitGrace = 200 * time.Millisecond // the same, if the handshake was not done
	termGrace      = time.Second            // to exit after SIGTERM
	pipeGrace      = time.Second            // until its output has been read to the end
)

// process is a running server with the processes that it started.
type process struct {
	cmd           *exec.Cmd
	group         procgroup.Group
	stdin, stdout *os.File
	stderr        tail

	stopOnce sync.Once
	greeted  atomic.Bool   // the handshake is done, so the process gets more time to exit
	exited   chan struct{} // closed when the child and its group are gone and stderr is drained
	err      error         // the child's exit error; set before exited is closed
}

// startProcess starts the server. Its stderr is always read, so that the server never blocks on it; the end is kept for error messages.
func (s *Source) startProcess() (*process, *fault.Error) {
	p := &process{cmd: command(&s.options), exited: make(chan struct{})}
	var files []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	childIn, stdin, err1 := pipe()
	stdout, childOut, err2 := pipe()
	stderr, childErr, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, childErr
		p.group, err = procgroup.Start(p.cmd)
	}
	if err != nil {
		closeAll(files)
		return nil, s.notStarted(err)
	}
	closeAll([]*os.File{childIn, childOut, childErr})
	p.stdin, p.stdout = stdin, stdout
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.drain(stderr, s.scrub, s.stderrLine)
	}()
	go p.wait(stderr, drained)
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// stderrLine logs a line of stderr, from which secrets were removed.
func (s *Source) stderrLine(line string) {
	if s.options.Log == nil {
		return
	}
	for len(line) > maxLogLine {
		n := wholeRunes(line[:maxLogLine])
		s.options.Log(line[:n])
		line = line[n:]
	}
	s.options.Log(line)
}

// notStarted returns the fault of a server that could not be started. Problems that only a new configuration or installation
// solves get the code bad_request, which is not retried.
func (s *Source) notStarted(err error) *fault.Error {
	f := fault.New(fault.Unavailable, "MCP server %q could not be started: ", s.options.Name)
	f.Err, f.Outcome = err, fault.NotSent
	info, dirErr := os.Stat(s.options.Dir)
	switch {
	case s.options.Dir != "" && (dirErr != nil || !info.IsDir()):
		f.Code = fault.BadRequest
		f.Message += "its working directory " + quoted(s.options.Dir) + " is not there: correct cwd"
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		f.Code = fault.BadRequest
		f.Message += "the command " + quoted(s.options.Command) + " was not found: install it, or write its whole path"
	case errors.Is(err, fs.ErrPermission):
		f.Code = fault.BadRequest
		f.Message += "the command " + quoted(s.options.Command) + " may not be run: look at its permissions"
	default:
		f.Message += s.scrub.clean(cause(err).Error())
	}
	return f
}

// cause returns the innermost error. Of joined errors it follows the last. The outer errors only repeat paths, arguments and URLs.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the chain is walked by hand
			if all := joined.Unwrap(); len(all) > 0 {
				inner = all[len(all)-1]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}

// drain reads stderr to its end. It logs a long line in pieces, and holds back the possible beginning of a secret.
func (p *process) drain(r io.Reader, scrub *scrubber, line func(string)) {
	reader := bufio.NewReaderSize(r, maxLogLine)
	limit := maxLogLine + 2*scrub.MaxEncoded()
	pending := ""
	for {
		chunk, err := reader.ReadSlice('\n')
		text := pending + string(chunk)
		pending = ""
		if errors.Is(err, bufio.ErrBufferFull) {
			whole := wholeRunes(text)
			prefix := visible(text[:whole])
			n := scrub.SafePrefix(prefix)
			text, pending = prefix[:n], prefix[n:]+text[whole:]
		}
		text = scrub.clean(text)
		// Only secrets that overlap one another make pending longer than limit. They are shown as one redaction.
		if len(pending) > limit {
			text, pending = text+secret.Redacted, pending[len(pending)-scrub.MaxEncoded():]
		}
		p.stderr.write(text)
		if text = strings.TrimRight(text, "\n"); text != "" {
			line(text)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// wait waits for the child to exit, ends the processes that it left behind, and closes exited once stderr is drained.
func (p *process) wait(stderr *os.File, drained <-chan struct{}) {
	p.err = p.cmd.Wait()
	p.group.End(termGrace)
	// A process that left the group may still hold the pipes; do not wait for it.
	deadline := time.Now().Add(pipeGrace)
	_, _ = p.stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
	<-drained
	_ = stderr.Close()
	close(p.exited)
}

// stop ends the process in the background; exited is closed when it has exited.
func (p *process) stop() {
	p.stopOnce.Do(func() {
		_ = p.stdin.Close()
		go func() {
			defer func() { _ = p.stdout.Close() }()
			grace := quickExitGrace
			if p.greeted.Load() {
				grace = exitGrace
			}
			if p.exitsWithin(grace) {
				return
			}
			p.group.Terminate()
			if p.exitsWithin(termGrace) {
				return
			}
			p.group.Kill()
			<-p.exited
		}()
	})
}

func (p *process) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// exitText describes how the process exited, with the end of its stderr. It returns "" while the process is running.
func (p *process) exitText() string {
	select {
	case <-p.exited:
	default:
		return ""
	}
	text := "it ended"
	if p.err != nil {
		text = fmt.Sprintf("it ended with %s", p.err)
	}
	if output := lastError(p.stderr.text()); output != "" {
		text += "; its last words: " + output
	}
	return text
}

// lastWords waits a moment for the process to exit, and returns "; " and its exitText. It returns "" if the process is still running.
func (p *process) lastWords() string {
	if !p.exitsWithin(pipeGrace) {
		return ""
	}
	return "; " + p.exitText()
}

// errorLine matches lines in which runtimes name a fatal error: Error: …, ValueError: …, panic: …
var errorLine = regexp.MustCompile(`(?m)^(?:[\w.]*(?:Error|Exception)|panic|fatal error|fatal|error)\b[^:\n]*: .*$`)

// lastError returns the last line of output that names an error, else all of it. The stack trace around it is in the log.
func lastError(output string) string {
	if lines := errorLine.FindAllString(output, -1); len(lines) > 0 {
		return strings.TrimSpace(lines[len(lines)-1])
	}
	return strings.TrimSpace(output)
}

// tail stores the end of a text without secrets.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// maxTail is the number of bytes of stderr that text returns.
const maxTail = 4 << 10

func (t *tail) write(chunk string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, chunk...)
	if over := len(t.data) - maxTail; over > maxTail { // only now, so that not every write moves the data
		t.data = append(t.data[:0], t.data[over:]...)
	}
}

// text returns the end of the written text, at most maxTail bytes.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.data[max(len(t.data)-maxTail, 0):]), "")
}
