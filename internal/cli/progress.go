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

// progressInterval is how often the progress line is redrawn while nothing happens.
const progressInterval = 100 * time.Millisecond

// progress draws the progress of a chain on the last line of a terminal. Elsewhere it does nothing.
type progress struct {
	status          *statusLine // nil: nothing is shown
	width           func() int
	startingSources func() string // streams.startingSources
	started         time.Time

	mu      sync.Mutex
	current chain.Progress
	hidden  bool
	done    chan struct{}
	ticking sync.WaitGroup
}

// startProgress starts to draw a progress line, until stop clears it.
func (s *streams) startProgress() *progress {
	p := &progress{started: time.Now()}
	if s.status == nil {
		return p
	}
	p.status, p.width, p.startingSources, p.done = s.status, s.errWidth, s.startingSources, make(chan struct{})
	p.ticking.Go(p.tick)
	return p
}

// report draws what the engine reports.
func (p *progress) report(now chain.Progress) {
	if p.status == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = now
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
	case p.current.Total > 0:
		p.show(progressLine(p.current, elapsed, p.width()))
	case p.startingSources != nil && elapsed >= startingAfter:
		if names := p.startingSources(); names != "" {
			after := fmt.Sprintf(" %.1fs", elapsed.Seconds())
			line := truncate(textfile.Printable("waiting for "+names), max(p.width()-1-len(after), 1))
			p.show(line + after)
		}
	}
}

// startingAfter is how long sources may take to start before they are named. Most take less.
const startingAfter = 500 * time.Millisecond

func (p *progress) show(line string) {
	p.status.show(func(w io.Writer) { _, _ = io.WriteString(w, clearLine+line) })
}

// hide hides the line until the returned function is called.
func (p *progress) hide() (show func()) {
	set := func(hidden bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hidden = hidden
		if hidden && p.status != nil {
			p.status.hide()
		}
	}
	set(true)
	return func() { set(false) }
}

// stop ends drawing and clears the line.
func (p *progress) stop() {
	if p.status == nil {
		return
	}
	close(p.done)
	p.ticking.Wait()
	p.status.hide()
}

// progressLine returns "done/total function: message percent elapsed", shortened so that it is narrower than width columns.
func progressLine(p chain.Progress, elapsed time.Duration, width int) string {
	name := p.Function
	if name == "" {
		name = "chain"
	}
	before := fmt.Sprintf("%d/%d ", p.Done, p.Total)
	after := fmt.Sprintf(" %.1fs", elapsed.Seconds())
	if p.FunctionTotal > 0 && p.FunctionDone >= 0 {
		after = fmt.Sprintf(" %.0f%%", min(p.FunctionDone/p.FunctionTotal, 1)*100) + after
	}
	if p.Message != "" {
		name += ": " + p.Message
	}
	space := max(width-1-len(before)-len(after), 0)
	if name = textfile.Printable(name); uniseg.StringWidth(name) > space {
		for name != "" && uniseg.StringWidth(name)+1 > space {
			name = textfile.Prefix(name, len(name)-1) // drops the last character
		}
		name += "…"
	}
	return before + name + after
}

// batchBar shows the progress of a batch at a terminal, by the bytes of its input.
type batchBar struct {
	bar    *progressbar.ProgressBar // nil: nothing is shown
	status *statusLine
	chains int
}

// newBatchBar starts a bar. It shows nothing if the answers go to the terminal.
func (s *streams) newBatchBar(files []chainfile.File) *batchBar {
	if s.status == nil || s.outTerminal {
		return &batchBar{}
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
	return &batchBar{status: s.status, bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.status.w),
		progressbar.OptionSetDescription("chains: 0"),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(progressInterval),
		progressbar.OptionClearOnFinish(),
	)}
}

// add counts a chain that has ended.
func (b *batchBar) add(e *chainfile.Entry) {
	if b.bar == nil {
		return
	}
	b.chains++
	b.status.show(func(io.Writer) {
		b.bar.Describe(fmt.Sprintf("chains: %d", b.chains))
		_ = b.bar.Add64(e.Read)
	})
}

// stop clears the bar. Further calls do nothing.
func (b *batchBar) stop() {
	if b.bar != nil {
		b.status.show(func(io.Writer) { _ = b.bar.Finish() })
		b.status.hide()
		b.bar = nil
	}
}
