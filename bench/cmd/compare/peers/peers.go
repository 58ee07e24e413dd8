// Package peers compares onecall with its users' alternatives: calls one by one, a gateway with scripts, and code modes, all in front of
// the same upstream.
package peers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

// Run measures the time of calls over HTTP.
func Run(ctx context.Context, o *report.Options) (*report.Section, error) {
	machine := report.ThisMachine()
	s, err := newSetup(o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	faults, err := s.install(ctx)
	if err != nil {
		return nil, err
	}
	p := plan{rounds: 45, block: 80 * time.Millisecond}
	if o.Short {
		p = plan{rounds: 10, block: 30 * time.Millisecond}
	}
	var runs []protocolRun
	for _, protocol := range []string{stateless, withSessions} {
		o.Log("measuring with an upstream of %s", protocol)
		arms, err := s.measureProtocol(ctx, protocol, faults, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", protocol, err)
		}
		runs = append(runs, protocolRun{protocol, arms})
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		return nil, err
	}
	section := s.section(runs, counter)
	section.Machine = machine
	return section, nil
}

// protocolRun holds what was measured with one kind of upstream.
type protocolRun struct {
	protocol string
	arms     []*arm
}

// install installs the arms. faults says why a peer did not install, by its key. If onecall does not build, that is an error.
func (s *setup) install(ctx context.Context) (faults map[string]string, err error) {
	if err := s.build(ctx, "onecall", ".", "./cmd/onecall"); err != nil {
		return nil, err
	}
	if err := s.build(ctx, "upstream", "bench/cmd/compare", "./peers/upstream"); err != nil {
		return nil, err
	}
	faults = map[string]string{}
	if err := s.installVMCP(ctx); err != nil {
		faults["vmcp"] = "not installed: " + oneLine(err)
	}
	if err := s.installNode(ctx); err != nil {
		for _, p := range peers {
			if p.npm != "" {
				faults[p.key] = "not installed: " + oneLine(err)
			}
		}
	}
	return faults, ctx.Err()
}

// measureProtocol measures all arms in front of one upstream.
func (s *setup) measureProtocol(ctx context.Context, protocol string, faults map[string]string, p plan) ([]*arm, error) {
	upstream, url, err := s.startUpstream(ctx, protocol)
	if err != nil {
		return nil, err
	}
	defer upstream.Close()
	var arms []*arm
	defer func() {
		for _, a := range arms {
			a.close()
		}
	}()
	for _, p := range peers {
		a := &arm{peer: p, fault: faults[p.key], results: map[string]*result{}}
		arms = append(arms, a)
		if a.fault != "" {
			continue
		}
		if err := a.startProcess(ctx, s, url, protocol); err != nil {
			a.fault = "does not start: " + oneLine(err)
			s.Log("%s %s", a.name, a.fault)
			a.close()
			if a.required {
				return nil, fmt.Errorf("%s %s", a.name, a.fault)
			}
		}
	}
	if err := measure(ctx, arms, p); err != nil {
		return nil, err
	}
	for _, a := range arms {
		for i := range works {
			if !a.required || !a.can(&works[i]) {
				continue
			}
			if r, why := a.result(&works[i]); r == nil {
				return nil, fmt.Errorf("%s at %q: %s", a.name, works[i].title, why)
			} else if r.errors > 0 {
				return nil, fmt.Errorf("%s at %s failed %d times: %s", a.name, works[i].title, r.errors, r.fault)
			}
		}
		a.recordUsage()
	}
	return arms, nil
}

// longestFault is the maximum length of an error in a table, in bytes.
const longestFault = 300

// oneLine returns err as a table shows it.
func oneLine(err error) string { return shorten(err.Error()) }

// shorten returns a text as one line of at most longestFault bytes, without this machine's folders.
func shorten(text string) string {
	text = strings.Join(strings.Fields(proc.Scrub(text)), " ")
	if len(text) > longestFault {
		text = strings.ToValidUTF8(text[:longestFault], "") + "…"
	}
	return text
}
