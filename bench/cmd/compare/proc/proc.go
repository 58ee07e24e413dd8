// Package proc runs the programs that onecall is compared with, each in a process group of its own. It is an error if a program does not
// start, hangs or leaves processes behind. In any case its whole group ends.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// grace is the time between SIGTERM and SIGKILL.
var grace = 10 * time.Second

// poll is the interval at which the output is checked, and whether a group has ended.
const poll = 5 * time.Millisecond

// Process is a program that was started, with the processes that it has started and that are still in its process group.
type Process struct {
	cmd    *exec.Cmd
	out    tail
	ctx    context.Context // ends when the process must end
	cancel context.CancelCauseFunc
	forced atomic.Bool   // it ignored SIGTERM
	done   chan struct{} // closed when the whole group has ended
	err    error         // set before done is closed
}

// errClosed ends a process that is no longer needed.
var errClosed = errors.New("closed")

// Start starts cmd, which must not have a context of its own. When ctx ends, so does the whole process group. Stdout and Stderr are kept
// for Output, unless the caller has set them or taken pipes. The caller must Close it.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.out
	}
	cmd.WaitDelay = grace // for a child that keeps the pipes open after its parent has ended
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	go p.wait()
	return p, nil
}

// Run runs cmd to its end, for at most limit, and returns the end of its output. The error contains the end of the output, too.
func Run(ctx context.Context, cmd *exec.Cmd, limit time.Duration) (output string, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("still running after %v", limit))
	defer stop()
	p, err := Start(ctx, cmd)
	if err != nil {
		return "", err
	}
	<-p.done
	if p.err != nil {
		return p.Output(), p.failed(p.err)
	}
	return p.Output(), nil
}

// pid returns the process id of the program, which is also the id of its group.
func (p *Process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal to the whole group.
func (p *Process) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid(), s) }

// Kill kills the whole group, as a crash would.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

// Done is closed when the program has ended with its whole group.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output returns the end of what the program has printed, without what a terminal cannot show and without this machine's folders.
func (p *Process) Output() string { return Scrub(p.out.String()) }

// Await waits until the program has printed what pattern matches, such as the address that it listens on, and returns the first
// submatch, or the match if there is none. It is an error if limit passes or the program ends first.
func (p *Process) Await(pattern *regexp.Regexp, limit time.Duration) (string, error) {
	late := time.After(limit)
	for {
		over := false // checked first, so that the last output is seen too
		select {
		case <-p.done:
			over = true
		default:
		}
		if match := pattern.FindStringSubmatch(p.out.String()); match != nil {
			return match[len(match)-1], nil
		}
		if over {
			return "", p.failed(errors.Join(errors.New("ended before it was ready"), p.err))
		}
		select {
		case <-late:
			return "", p.failed(fmt.Errorf("not ready after %v", limit))
		case <-time.After(poll):
		}
	}
}

// Close ends the program with its whole group, waits for their end, and returns what went wrong: that the program failed, ran past its
// limit, ignored SIGTERM, or left processes behind. It may be called again.
func (p *Process) Close() error {
	p.cancel(errClosed)
	<-p.done
	return p.err
}

// wait waits for the end of the program and of its group. When p.ctx ends it terminates the group, and kills it after the grace period.
func (p *Process) wait() {
	ended := make(chan struct{})
	stop := context.AfterFunc(p.ctx, func() {
		p.signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
			p.forced.Store(true)
			p.signal(syscall.SIGKILL)
		}
	})
	waited := p.cmd.Wait()
	close(ended)
	stop()
	p.err = p.verdict(waited, p.endRest())
	p.cancel(errClosed)
	close(p.done)
}

// endRest kills what is left of the group after its leader has ended, and returns the names of the processes that did not end by themselves
// within the grace period.
func (p *Process) endRest() (names []string) {
	defer p.signal(syscall.SIGKILL)
	for late := time.Now().Add(grace); ; time.Sleep(poll) {
		left := members(p.pid())
		if len(left) > 0 && time.Now().Before(late) {
			continue
		}
		for _, s := range left {
			names = append(names, s.Comm)
		}
		slices.Sort(names)
		return names
	}
}

// verdict returns what was wrong with the end of the process: waited is the leader's error, left the processes that outlived it.
func (p *Process) verdict(waited error, left []string) error {
	var faults []error
	switch cause := context.Cause(p.ctx); {
	case cause == nil && waited != nil && !errors.Is(waited, exec.ErrWaitDelay): // it ended by itself
		faults = append(faults, waited)
	case cause != nil && !errors.Is(cause, errClosed):
		faults = append(faults, cause)
	}
	if p.forced.Load() {
		faults = append(faults, fmt.Errorf("ignored SIGTERM for %v and was killed", grace))
	}
	if len(left) > 0 {
		faults = append(faults, fmt.Errorf("left %d of its processes running, which were killed: %s", len(left),
			strings.Join(slices.Compact(left), ", ")))
	}
	return errors.Join(faults...)
}

// failed returns err with the program's path and the end of its output.
func (p *Process) failed(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if printed := strings.TrimSpace(p.Output()); printed != "" {
		text += ": " + strings.ToValidUTF8(printed[max(0, len(printed)-500):], "…")
	}
	return errors.New(Scrub(p.cmd.Path) + ": " + text)
}
