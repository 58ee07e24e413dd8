package mcp

import (
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

const longSecret = "Zq7Wv9Kx3Rt5Yp1Ns8Md2Lb4Hc6Jg0Fa"

// showsSecret reports whether a text shows a part of the long secret that helps to guess it.
func showsSecret(text string) bool {
	for i := 0; i+secret.MinLength <= len(longSecret); i++ {
		if strings.Contains(text, longSecret[i:i+secret.MinLength]) {
			return true
		}
	}
	return false
}

// Wherever a text is cut, no part of a secret remains at the cut.
func TestExcerptCutsNoSecret(t *testing.T) {
	t.Parallel()
	s := newScrubber(&Options{Env: map[string]string{"TOKEN": longSecret, "OTHER_KEY": "Fa-and-so-on"}})
	for before := range 500 {
		text := strings.Repeat("é", before/2) + strings.Repeat("-", before%2) + longSecret + strings.Repeat("-", 20*before) + longSecret
		got := s.excerpt(text, maxQuoted)
		if showsSecret(got) || len(got) > maxQuoted+len(ellipsis) || strings.Contains(got, "\uFFFD") {
			t.Fatalf("secret after %d bytes: got %q, want no secret and at most %d bytes", before, got, maxQuoted+len(ellipsis))
		}
	}
	// Removed secrets make room for text that follows far behind them.
	for before := range 40 {
		if got := s.excerpt(strings.Repeat("-", before)+strings.Repeat(longSecret, 100), maxQuoted); showsSecret(got) ||
			!strings.Contains(got, secret.Redacted) {
			t.Fatalf("secrets after %d bytes: got %q, want [redacted] for all", before, got)
		}
	}
}

// A long number in a server's variable is a secret, whatever the variable's name: account numbers, numeric keys.
func TestNumbersAreSecrets(t *testing.T) {
	t.Parallel()
	const number = "12345678901234567890"
	s := newScrubber(&Options{Env: map[string]string{"ACCOUNT": number, "PORT": "8080"}})
	if got := s.clean("account " + number + " at 8080"); got != "account [redacted] at 8080" {
		t.Errorf("in a text: got %s, want account [redacted] at 8080", got)
	}
	if got := string(s.JSON([]byte(`{"account":` + number + `,"port":8080}`))); got != `{"account":"[redacted]","port":8080}` {
		t.Errorf("in JSON: got %s, want {\"account\":\"[redacted]\",\"port\":8080}", got)
	}
}

// A warning about output that is not a message shows no part of a secret at the cut of its excerpt.
func TestWarningsCutNoSecret(t *testing.T) {
	t.Parallel()
	for before := maxQuoted - len(longSecret); before <= maxQuoted; before++ {
		var got string
		warn := func(f *fault.Error) { got += f.Error() }
		s := newSource(Options{Name: "s", Command: "x", Env: map[string]string{"TOKEN": longSecret}, MaxMessageBytes: 1 << 20, Warn: warn})
		tap := newTap(s)
		line := strings.Repeat("-", before) + longSecret + strings.Repeat("-", 400)
		c := &stdioPipe{tap: tap}
		warn(c.warning([]byte(line), "odd"))
		c.garbage = maxGarbage
		warn(fault.New(fault.Internal, "%v", c.countGarbage([]byte(line))))
		b := newEventBody(io.NopCloser(strings.NewReader("data: "+line+"\n\n")), tap, nil, 0, &s.options)
		if _, err := io.ReadAll(b); err != nil {
			t.Fatal(err)
		}
		if showsSecret(got) || strings.Count(got, "---") < 3 {
			t.Fatalf("secret after %d bytes: got %s, want no secret, and three pieces", before, got)
		}
	}
}

// Stderr is read in pieces of any size, and its end is cut anywhere: no part of a secret remains.
func TestStderrCutsNoSecret(t *testing.T) {
	t.Parallel()
	scrub := newScrubber(&Options{Env: map[string]string{"TOKEN": longSecret, "KEY": "line one!\nline two!"}})
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(1, 30).Draw(t, "parts") {
			text.WriteString(strings.Repeat("-", rapid.IntRange(0, 5000).Draw(t, "dashes")))
			text.WriteString(rapid.SampledFrom([]string{longSecret, longSecret + "\n", "\n", "é\n", "line one!\nline two!\n", longSecret[:5] +
				longSecret}).Draw(t, "then"))
		}
		var p process
		var lines []string
		p.drain(&pieceReader{text: text.String(), size: rapid.IntRange(1, 9000).Draw(t, "piece")}, scrub,
			func(line string) { lines = append(lines, line) })
		for _, got := range []string{strings.Join(lines, "\n"), p.stderr.text()} {
			if showsSecret(got) || strings.Contains(got, "line ") {
				t.Fatalf("a part of a secret is shown: %q", got)
			}
		}
		// Nothing else is lost.
		want := ""
		for line := range strings.Lines(text.String()) {
			want += scrub.clean(line)
		}
		if got := strings.Join(lines, ""); strings.ReplaceAll(want, "\n", "") != got {
			t.Fatalf("got %d bytes of lines, want %d", len(got), len(want))
		}
		if tail := p.stderr.text(); !strings.HasSuffix(want, tail) || len(tail) < min(len(want), maxTail-4) {
			t.Fatalf("the stored tail of %d bytes is too short, or not the end of the %d bytes", len(tail), len(want))
		}
	})
}

// The buffers for reading and for storing stderr may end anywhere in a secret.
func TestStderrAtBufferEnds(t *testing.T) {
	t.Parallel()
	scrub := newScrubber(&Options{Env: map[string]string{"TOKEN": longSecret}})
	for _, after := range []int{0, 100, maxTail - 64, maxTail - 32, maxTail - 8} {
		for before := maxLogLine - len(longSecret); before <= maxLogLine; before++ {
			var p process
			all := ""
			text := strings.Repeat("-", before) + longSecret + strings.Repeat("-", after)
			p.drain(strings.NewReader(text), scrub, func(line string) { all += line })
			if want := strings.Replace(text, longSecret, secret.Redacted, 1); all != want || showsSecret(p.stderr.text()) ||
				!strings.HasSuffix(want, p.stderr.text()) {
				t.Fatalf("secret between %d and %d bytes: got %q, want %q", before, after, all, want)
			}
		}
	}
}

func TestLongLinesOfStderr(t *testing.T) {
	t.Parallel()
	var lines []string
	s := newSource(Options{Name: "s", Command: "x", Log: func(line string) { lines = append(lines, line) }})
	s.stderrLine(strings.Repeat("é", maxLogLine))
	if len(lines) != 2 || len(lines[0]) != maxLogLine || strings.Join(lines, "") != strings.Repeat("é", maxLogLine) {
		t.Errorf("got %d lines, want 2", len(lines))
	}
}

// Overlapping secrets do not make the pending text grow.
func TestStderrOfOneRepeatedSecret(t *testing.T) {
	t.Parallel()
	scrub := newScrubber(&Options{Env: map[string]string{"TOKEN": "aaaaaaaa"}})
	var p process
	longest, shown := 0, false
	p.drain(strings.NewReader(strings.Repeat("a", 1<<20)), scrub, func(line string) {
		longest, shown = max(longest, len(line)), shown || strings.Contains(line, "aaaaaaaa")
	})
	if longest == 0 || longest > 2*maxLogLine || shown {
		t.Errorf("the longest line has %d bytes, want 1 to %d; secret shown: %v, want false", longest, 2*maxLogLine, shown)
	}
}
