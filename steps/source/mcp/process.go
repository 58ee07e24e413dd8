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
	"github.com/onecall-mcp/onecall/internal/secret"
)

// How long a server may take to leave: after its stdin is closed, after SIGTERM, and for what it leaves behind in its
// pipes.
const (
	leaveGrace, hurryGrace, termGrace = 2 * time.Second, 200 * time.Millisecond, time.Second
	pipeGrace                         = time.Second
)

// process is a running server and whatever it has started.
type process struct {
	cmd           *exec.Cmd
	group         group
	stdin, stdout *os.File
	stderr        tail

	closing sync.Once
	greeted atomic.Bool   // it has begun to work: it gets time to leave
	ended   chan struct{} // closed when the child and its group are gone and stderr is read
	err     error         // how the child ended; set before ended is closed
}

// startProcess starts the server. Its stderr is always read, so that it cannot stall; its last words are kept.
func (s *Source) startProcess() (*process, *fault.Error) {
	p := &process{cmd: command(&s.options), ended: make(chan struct{})}
	var files []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	theirIn, ourIn, err1 := pipe()
	ourOut, theirOut, err2 := pipe()
	ourErr, theirErr, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, theirErr
		p.group, err = startGroup(p.cmd)
	}
	if err != nil {
		closeAll(files)
		return nil, s.notStarted(err)
	}
	closeAll([]*os.File{theirIn, theirOut, theirErr})
	p.stdin, p.stdout = ourIn, ourOut
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.drain(ourErr, s.scrub, s.stderrLine)
	}()
	go p.wait(ourErr, drained)
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// stderrLine passes on a line of stderr, which holds no secrets any more.
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

// notStarted says why a server could not be started. What only another configuration or an installation can mend is
// denied a retry by its code.
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

// cause is the innermost error, the last where several were joined: those around it repeat paths, arguments and URLs.
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

// drain reads stderr to its end. A long line is passed on in pieces; what may be the beginning of a secret waits for the
// rest of it.
func (p *process) drain(r io.Reader, scrub *scrubber, line func(string)) {
	reader := bufio.NewReaderSize(r, maxLogLine)
	most := maxLogLine + 2*scrub.Longest()
	pending := ""
	for {
		chunk, err := reader.ReadSlice('\n')
		text := pending + string(chunk)
		pending = ""
		if errors.Is(err, bufio.ErrBufferFull) {
			whole := wholeRunes(text)
			begin := visible(text[:whole])
			n := scrub.Settled(begin)
			text, pending = begin[:n], begin[n:]+text[whole:]
		}
		text = scrub.clean(text)
		if len(pending) > most { // secrets that run into one another
			text, pending = text+secret.Redacted, pending[len(pending)-scrub.Longest():]
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

// wait ends what the child has left behind, and lets go of everything.
func (p *process) wait(stderr *os.File, drained <-chan struct{}) {
	p.err = p.cmd.Wait()
	p.group.end(termGrace)
	// A process that left the group may still hold the pipes: nobody waits for it.
	late := time.Now().Add(pipeGrace)
	_, _ = p.stdout.SetReadDeadline(late), stderr.SetReadDeadline(late)
	<-drained
	_ = stderr.Close()
	close(p.ended)
}

// stop ends the process in the background; ended tells when it has.
func (p *process) stop() {
	p.closing.Do(func() {
		_ = p.stdin.Close()
		go func() {
			defer func() { _ = p.stdout.Close() }()
			grace := hurryGrace
			if p.greeted.Load() {
				grace = leaveGrace
			}
			if p.endsWithin(grace) {
				return
			}
			p.group.terminate()
			if p.endsWithin(termGrace) {
				return
			}
			p.group.kill()
			<-p.ended
		}()
	})
}

func (p *process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// lastWords says how the process ended, and with what on stderr; "" while it runs.
func (p *process) lastWords() string {
	select {
	case <-p.ended:
	default:
		return ""
	}
	text := "it ended"
	if p.err != nil {
		text = fmt.Sprintf("it ended with %s", p.err)
	}
	if said := lastError(p.stderr.text()); said != "" {
		text += "; its last words: " + said
	}
	return text
}

// errorLine begins as runtimes name what has ended a program: Error: …, ValueError: …, panic: …
var errorLine = regexp.MustCompile(`(?m)^(?:[\w.]*(?:Error|Exception)|panic|fatal error|fatal|error)\b[^:\n]*: .*$`)

// lastError is the last line that names an error, of what a program has written at its end: a stack trace around it tells an operator
// nothing that --verbose does not. Without such a line it is the whole.
func lastError(said string) string {
	if lines := errorLine.FindAllString(said, -1); len(lines) > 0 {
		return strings.TrimSpace(lines[len(lines)-1])
	}
	return strings.TrimSpace(said)
}

// tail keeps the end of a text, from which secrets have been taken.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// maxTail is how much of stderr is kept, in bytes.
const maxTail = 4 << 10

func (t *tail) write(chunk string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, chunk...)
	if over := len(t.kept) - maxTail; over > maxTail {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// text is the end of what was written, at most maxTail bytes.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept[max(len(t.kept)-maxTail, 0):]), "")
}
