package cli

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/chain"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		p       chain.Progress
		elapsed time.Duration
		width   int
		want    string
	}{
		{chain.Progress{Done: 2, Total: 10, Function: "fs.grep"}, 1240 * time.Millisecond, 80, "2/10 fs.grep 1.2s"},
		{chain.Progress{Done: 0, Total: 1}, 0, 80, "0/1 chain 0.0s"},
		{chain.Progress{Done: 1, Total: 2, Function: "a.b", FunctionDone: 3, FunctionTotal: 4, Message: "copying"}, time.Second, 80, "1/2 a.b: copying 75% 1.0s"},
		{chain.Progress{Done: 2, Total: 10, Function: "source.resource.action"}, 61 * time.Second, 20,
			"2/10 source.r… 61.0s"[:len("2/10 source.r…")-len("…")-1] + "… 61.0s"},
		{chain.Progress{Done: 2, Total: 10, Function: "fs.grep"}, time.Second, 5, "2/10 … 1.0s"},
		{chain.Progress{Done: 1, Total: 2, Function: "a\x1b[2Jb"}, time.Second, 80, "1/2 a·[2Jb 1.0s"},
	}
	for _, test := range tests {
		if got := progressLine(test.p, test.elapsed, test.width); got != test.want {
			t.Errorf("%+v at width %d: %q, want %q", test.p, test.width, got, test.want)
		}
	}
	for width := 20; width < 40; width++ {
		if line := progressLine(chain.Progress{Total: 3, Function: strings.Repeat("日本語", 20)}, 0, width); uniseg.StringWidth(line) >= width {
			t.Errorf("%q is wider than a line of %d columns", line, width)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		status := &statusLine{w: &b}
		s := &streams{err: status, status: status, errTerminal: true, errWidth: func() int { return 80 }}
		p := s.startProgress()
		p.report(chain.Progress{Done: 0, Total: 2, Function: "fs.find"})
		time.Sleep(250 * time.Millisecond)
		s.noticef("warning: slow")
		s.noticef("and more")
		p.report(chain.Progress{Done: 1, Total: 2, Function: "fs.cat"})
		p.stop()
		want := clearLine + "0/2 fs.find 0.0s" + clearLine + "0/2 fs.find 0.1s" + clearLine + "0/2 fs.find 0.2s" + clearLine +
			"warning: slow\nand more\n" + clearLine + "1/2 fs.cat 0.2s" + clearLine
		if b.String() != want {
			t.Errorf("drawn %q, want %q", b.String(), want)
		}
		b.Reset()
		var names atomic.Value
		names.Store("a (loading\x1b the model)")
		s.startingSources = func() string { return names.Load().(string) }
		p = s.startProgress()
		time.Sleep(650 * time.Millisecond)
		names.Store("") // the source has started
		time.Sleep(100 * time.Millisecond)
		p.report(chain.Progress{Total: 1, Function: "a.b"})
		p.stop()
		want = clearLine + "waiting for a (loading· the model) 0.5s" + clearLine + "waiting for a (loading· the model) 0.6s" + clearLine +
			"0/1 a.b 0.8s" + clearLine
		if b.String() != want {
			t.Errorf("drawn %q, want %q", b.String(), want)
		}
		b.Reset()
		p = (&streams{err: &b}).startProgress()
		p.report(chain.Progress{Total: 2})
		p.stop()
		if b.Len() > 0 {
			t.Errorf("drawn without a terminal: %q", b.String())
		}
	})
}
