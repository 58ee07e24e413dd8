package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rivo/uniseg"
	"github.com/schollz/progressbar/v3"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// progressInterval is how often the line of progress is redrawn while nothing happens.
const progressInterval = 100 * time.Millisecond

// clearLine goes to the beginning of the line and clears it.
const clearLine = "\r\x1b[K"

// progress is the line at a terminal that shows how far a chain is. Elsewhere it does nothing.
type progress struct {
	out      io.Writer // nil: nothing is shown
	width    func() int
	starting func() string // the sources that are, before the first step; nil: nothing waits for them
	started  time.Time

	mu     sync.Mutex
	now    chain.Progress
	hidden bool
	done   chan struct{}
	idle   sync.WaitGroup
}

// startProgress begins a line of progress; stop clears it.
func (s *streams) startProgress() *progress {
	p := &progress{started: time.Now()}
	if !s.errTerminal || s.plain {
		return p
	}
	p.out, p.width, p.starting, p.done = s.err, s.errWidth, s.starting, make(chan struct{})
	p.idle.Go(p.tick)
	return p
}

// report shows what the engine reports.
func (p *progress) report(now chain.Progress) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
	p.draw()
}

func (p *progress) tick() {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

func (p *progress) draw() {
	elapsed := time.Since(p.started)
	switch {
	case p.hidden:
	case p.now.Total > 0:
		fmt.Fprint(p.out, clearLine+progressLine(p.now, elapsed, p.width()))
	case p.starting != nil && elapsed >= startingAfter:
		if names := p.starting(); names != "" {
			after := fmt.Sprintf(" %.1fs", elapsed.Seconds())
			line := cut(textfile.Printable("waiting for "+names), max(p.width()-1-len(after), 1))
			fmt.Fprint(p.out, clearLine+line+after)
		}
	}
}

// startingAfter is how long sources may take to start before they are named: most are there in a moment.
const startingAfter = 500 * time.Millisecond

// above writes lines above the line of progress.
func (p *progress) above(w io.Writer, lines string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil {
		lines = clearLine + lines
	}
	fmt.Fprintln(w, lines)
}

// hide clears the line until show is called.
func (p *progress) hide() (show func()) {
	set := func(hidden bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hidden = hidden; hidden && p.out != nil {
			fmt.Fprint(p.out, clearLine)
		}
	}
	set(true)
	return func() { set(false) }
}

// stop ends the drawing and clears the line.
func (p *progress) stop() {
	if p.out == nil {
		return
	}
	close(p.done)
	p.idle.Wait()
	fmt.Fprint(p.out, clearLine)
}

// progressLine is "steps done/all, what runs, how long", no wider than a terminal's line.
func progressLine(p chain.Progress, elapsed time.Duration, width int) string {
	name := p.Function
	if name == "" {
		name = "chain"
	}
	before := fmt.Sprintf("%d/%d ", p.Done, p.Total)
	after := fmt.Sprintf(" %.1fs", elapsed.Seconds())
	if p.Whole > 0 && p.Part >= 0 {
		after = fmt.Sprintf(" %.0f%%", min(p.Part/p.Whole, 1)*100) + after
	}
	if p.Message != "" {
		name += ": " + p.Message
	}
	room := max(width-1-len(before)-len(after), 0)
	if name = textfile.Printable(name); uniseg.StringWidth(name) > room {
		for name != "" && uniseg.StringWidth(name)+1 > room {
			name = prefix(name, len(name)-1)
		}
		name += "…"
	}
	return before + name + after
}

// bar shows at a terminal how far a batch is, by the bytes of its input.
type bar struct {
	bar    *progressbar.ProgressBar // nil: nothing is shown
	chains int
}

// newBar begins a bar. There is none if the answers go to the terminal.
func (s *streams) newBar(files []chainfile.File) *bar {
	if !s.errTerminal || s.plain || s.outTerminal {
		return &bar{}
	}
	total := int64(0)
	for _, file := range files {
		info, err := os.Stat(file.Path)
		if err != nil || !info.Mode().IsRegular() {
			total = -1 // unknown: a spinner
			break
		}
		total += info.Size()
	}
	return &bar{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.err),
		progressbar.OptionSetDescription("chains: 0"),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(progressInterval),
		progressbar.OptionClearOnFinish(),
	)}
}

// add takes note of a chain that has ended.
func (b *bar) add(e *chainfile.Entry) {
	if b.bar == nil {
		return
	}
	b.chains++
	b.bar.Describe(fmt.Sprintf("chains: %d", b.chains))
	// Errors of drawing are ignored.
	_ = b.bar.Add64(e.Read)
}

// stop clears the bar; a second time it does nothing.
func (b *bar) stop() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
