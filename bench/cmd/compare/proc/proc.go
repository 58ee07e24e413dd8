// Package proc runs the programs that onecall is compared with, each in a process group of its own and for a bounded time. It is an error
// if a program does not start, hangs or leaves processes behind. In any case its whole group ends.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// Options bound a program. The zero value is fine.
type Options struct {
	Limit time.Duration // how long it may run; 0: ten minutes
	Grace time.Duration // the time between SIGTERM and SIGKILL; 0: two seconds
	Keep  int           // how many of the last bytes of its output are kept; 0: 16 KiB
}

// withDefaults returns a copy of o, which may be nil, with the defaults.
func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	if c.Limit == 0 {
		c.Limit = 10 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	if c.Keep == 0 {
		c.Keep = 16 << 10
	}
	return c
}

// Process is a program that was started, with the processes that it has started and that are still in its process group.
type Process struct {
	cmd    *exec.Cmd
	o      Options
	out    *tail
	ctx    context.Context // ends when the process must end
	cancel context.CancelCauseFunc
	forced atomic.Bool   // it ignored SIGTERM
	done   chan struct{} // closed when the whole group has ended
	err    error         // set before done is closed
}

// errClosed ends a process that is no longer needed.
var errClosed = errors.New("closed")

// Start starts cmd, which must not have a context of its own. When ctx ends or the limit has passed, it ends the whole process group.
// Stdout and Stderr are kept for Output, unless the caller has set them or taken pipes. The caller must Close it.
func Start(ctx context.Context, cmd *exec.Cmd, options *Options) (*Process, error) {
	o := options.withDefaults()
	p := &Process{cmd: cmd, o: o, out: &tail{keep: o.Keep}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.out
	}
	cmd.WaitDelay = o.Grace // for a child that keeps the pipes open after its parent has ended
	setGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("still running after %v", o.Limit))
	p.ctx, p.cancel = context.WithCancelCause(limited)
	ended := make(chan struct{}) // closed when the leader has ended
	go p.endOnCancel(ended)
	go func() {
		err := cmd.Wait()
		close(ended)
		p.err = p.verdict(err, p.endRest())
		p.cancel(errClosed)
		stop()
		close(p.done)
	}()
	return p, nil
}

// Run runs cmd to its end, and returns the end of its output. The error contains the end of the output, too.
func Run(ctx context.Context, cmd *exec.Cmd, o *Options) (output string, err error) {
	p, err := Start(ctx, cmd, o)
	if err != nil {
		return "", err
	}
	<-p.done
	if p.err != nil {
		return p.Output(), p.failed(p.err)
	}
	return p.Output(), nil
}

// PID returns the process id of the program, which is also the id of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended with its whole group.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output returns the end of what the program has printed, without what a terminal cannot show and without this machine's folders.
func (p *Process) Output() string { return Scrub(p.out.String()) }

// awaitPoll is the interval at which the output is checked.
const awaitPoll = 5 * time.Millisecond

// Await waits until the program has printed what pattern matches, such as the address that it listens on, and returns the first
// submatch, or the match if there is none. It is an error if limit passes or the program ends first.
func (p *Process) Await(pattern *regexp.Regexp, limit time.Duration) (string, error) {
	late := time.After(limit)
	for {
		over := p.over() // checked first, so that the last output is seen too
		if match := pattern.FindStringSubmatch(p.out.String()); match != nil {
			return match[len(match)-1], nil
		}
		if over {
			return "", p.failed(errors.Join(errors.New("ended before it was ready"), p.err))
		}
		select {
		case <-p.done:
		case <-late:
			return "", p.failed(fmt.Errorf("not ready after %v", limit))
		case <-time.After(awaitPoll):
		}
	}
}

// over reports whether the whole group has ended.
func (p *Process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Close ends the program with its whole group, and waits until they have ended. The error says whether the program failed, ran past its
// limit, ignored SIGTERM, or left processes behind. It may be called again.
func (p *Process) Close() error {
	p.cancel(errClosed)
	<-p.done
	return p.err
}

// endOnCancel waits for the end of p.ctx, then terminates the group, and kills it after the grace period.
func (p *Process) endOnCancel(ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-p.ctx.Done():
	}
	terminate(p.PID())
	select {
	case <-ended:
	case <-time.After(p.o.Grace):
		p.forced.Store(true)
		kill(p.PID())
	}
}

// endRest kills what is left of the group after its leader has ended, and returns the processes that did not end by themselves within the
// grace period.
func (p *Process) endRest() (left []stat) {
	defer kill(p.PID())
	for late := time.Now().Add(p.o.Grace); ; time.Sleep(awaitPoll) {
		if left = members(p.PID()); len(left) == 0 || !time.Now().Before(late) {
			return left
		}
	}
}

// verdict returns what was wrong with the end of the process: waited is the leader's error, left the processes that outlived it.
func (p *Process) verdict(waited error, left []stat) error {
	var faults []error
	switch cause := context.Cause(p.ctx); {
	case cause == nil && waited != nil && !errors.Is(waited, exec.ErrWaitDelay): // it ended by itself
		faults = append(faults, waited)
	case cause != nil && !errors.Is(cause, errClosed):
		faults = append(faults, cause)
	}
	if p.forced.Load() {
		faults = append(faults, fmt.Errorf("ignored SIGTERM for %v and was killed", p.o.Grace))
	}
	if len(left) > 0 {
		faults = append(faults, fmt.Errorf("left %d of its processes running, which were killed: %s", len(left), names(left)))
	}
	return errors.Join(faults...)
}

// failed returns err with the program's path and the end of its output.
func (p *Process) failed(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if printed := strings.TrimSpace(p.Output()); printed != "" {
		text += ": " + lastBytes(printed, 500)
	}
	return errors.New(Scrub(p.cmd.Path) + ": " + text)
}
