package faults

import (
	"context"
	"sync"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// system is an arm that was started. Its client makes one run at a time.
type system interface {
	// begin has the task done, as the system's users do it.
	begin(context.Context, *trial) answer
	// goOn does what the system documents for a run that has not ended well, after its processes were started again.
	goOn(context.Context, *trial, answer) answer
	killClient()
	killGateway()
	hasGateway() bool  // it has a process between client and upstream
	hasDeadline() bool // it can be told how long a call of the upstream may take
	database() string  // the SQLite file that it writes; "": none
	disk() *disk       // the file system that it writes into, if it can be full; nil: it writes nothing, or none could be made
	approves() bool    // calls may wait for an approval
	close()
}

// plain has what a system answers that has no gateway, keeps nothing and asks for nothing. Systems embed it.
type plain struct{}

func (plain) hasGateway() bool  { return false }
func (plain) killGateway()      {}
func (plain) hasDeadline() bool { return false }
func (plain) database() string  { return "" }
func (plain) disk() *disk       { return nil }
func (plain) approves() bool    { return false }
func (plain) close()            {}

// gateway is a process between client and upstream, which is started when it is first needed, and again after it was killed.
type gateway struct {
	plain
	start    func(context.Context) (*proc.Process, string) // starts the process, and returns its address, too
	starting sync.Mutex                                    // held while the process is started

	mu      sync.Mutex
	process *proc.Process
	address string
	killed  bool
}

func (g *gateway) hasGateway() bool { return true }

// url returns the address of the process that runs.
func (g *gateway) url(ctx context.Context) string {
	g.starting.Lock()
	defer g.starting.Unlock()
	g.mu.Lock()
	process, killed := g.process, g.killed
	g.mu.Unlock()
	if process != nil && !killed {
		return g.address
	}
	if killed {
		<-process.Done()
	}
	process, address := g.start(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process, g.address, g.killed = process, address, false
	return address
}

func (g *gateway) killGateway() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		g.process.Kill()
		g.killed = true
	}
}

// wasKilled reports whether the process ran, and was killed since.
func (g *gateway) wasKilled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.killed
}

func (g *gateway) close() {
	if g.process != nil {
		_ = g.process.Close()
	}
}

// client is a client whose connections are closed when it is killed.
type client struct {
	mu     sync.Mutex
	vanish context.CancelFunc
}

// live returns a context for what the client does; killClient ends it.
func (c *client) live(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, vanish := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vanish = vanish
	return ctx, vanish
}

func (c *client) killClient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vanish()
}
