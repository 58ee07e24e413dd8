// Package cast draws the output of commands at a terminal as an animated SVG without a script. The lines of a command appear one
// after another and stay. It follows the reader's light or dark theme.
package cast

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
)

// Cast is a terminal session.
type Cast struct {
	title   string
	columns int
	clock   float64 // the time at which the next text appears, in seconds
	lines   []line
}

// line is a line of the terminal. Each of its spans has the time at which it appears.
type line []span

type span struct {
	text, class string  // class has the CSS classes of its color; "": none
	at          float64 // in seconds
}

// New returns an empty cast. title describes it.
func New(title string, columns int) *Cast { return &Cast{title: title, columns: columns, clock: 0.5} }

// Durations, in seconds.
const (
	keyTime     = 0.04 // for each typed character
	runDelay    = 0.5  // from the last typed character to the first printed line
	lineTime    = 0.05 // from one printed line to the next
	readingTime = 0.6  // after the output, for each of its lines
	maxReading  = 4.0  // the most for reading one output
)

// Command types a command and shows its output, which may have colors (SGR sequences).
func (c *Cast) Command(command, prints string) {
	typed := line{{"$ ", "prompt", c.clock}}
	const chunk = 3
	for keys := []rune(command); len(keys) > 0; {
		n := min(chunk, len(keys))
		typed = append(typed, span{string(keys[:n]), "", c.clock})
		keys, c.clock = keys[n:], c.clock+chunk*keyTime
	}
	c.lines = append(c.lines, typed)
	c.clock += runDelay
	reading, class := 0.0, ""
	for text := range strings.Lines(prints) {
		text = strings.TrimRight(text, "\r\n")
		spans := splitColors(text[strings.LastIndexByte(text, '\r')+1:], &class) // what precedes a \r was overwritten
		for i := range spans {
			spans[i].at = c.clock
		}
		c.lines = append(c.lines, wrap(spans, c.columns)...)
		c.clock += lineTime
		reading += readingTime
	}
	c.clock += min(reading, maxReading)
}

// BeginHere makes all that was shown so far visible from the start, so that the first frame is no empty screen.
func (c *Cast) BeginHere() {
	for _, l := range c.lines {
		for i := range l {
			l[i].at = 0
		}
	}
	c.clock = maxReading
}

// Escape sequences of a terminal. Those that set colors end in m; others are left out.
var (
	sequence = regexp.MustCompile(`\x1b\[([0-9;?]*)([A-Za-z])`)
	classes  = map[string]string{"1": "b", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan",
		"90": "dim", "91": "red", "92": "green", "93": "yellow", "94": "blue", "95": "magenta", "96": "cyan"}
)

// splitColors splits a line where its color changes. class holds the current color, and is set to the color at the line's end.
func splitColors(text string, class *string) (spans []span) {
	add := func(text string) {
		if text != "" {
			spans = append(spans, span{text: text, class: *class})
		}
	}
	for {
		at := sequence.FindStringSubmatchIndex(text)
		if at == nil {
			add(text)
			return spans
		}
		add(text[:at[0]])
		if text[at[4]:at[5]] == "m" {
			for code := range strings.SplitSeq(text[at[2]:at[3]], ";") {
				switch name := classes[code]; {
				case name != "":
					*class = strings.TrimSpace(*class + " " + name)
				default:
					*class = ""
				}
			}
		}
		text = text[at[1]:]
	}
}

// wrap breaks a line as a terminal of this width does. Each character counts as one column.
func wrap(whole line, columns int) (lines []line) {
	var current line
	left := columns
	for _, s := range whole {
		for rest := []rune(s.text); len(rest) > 0; {
			if left == 0 {
				lines, current, left = append(lines, current), nil, columns
			}
			n := min(len(rest), left)
			current = append(current, span{string(rest[:n]), s.class, s.at})
			rest, left = rest[n:], left-n
		}
	}
	return append(lines, current)
}

// Text returns the session as text, without colors.
func (c *Cast) Text() string {
	var b strings.Builder
	for _, l := range c.lines {
		for _, s := range l {
			b.WriteString(s.text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Measures of the drawing.
const (
	charWidth  = 8.0
	lineHeight = 19.0
	margin     = 16.0
	bar        = 30.0
)

// SVG draws the cast. Each span has an animation that lasts until the span's time and keeps it invisible while it runs. Where the reader
// wants no motion, there is no animation, and everything is visible at once.
func (c *Cast) SVG() []byte {
	var b bytes.Buffer
	width, height := 2*margin+charWidth*float64(c.columns), bar+2*margin+lineHeight*float64(len(c.lines))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">
<style>
text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#1f2328;white-space:pre}
.screen{fill:#f6f8fa;stroke:#d1d9e0}.dot{fill:#d1d9e0}
.prompt,.green{fill:#1a7f37}.red{fill:#cf222e}.yellow{fill:#9a6700}.blue{fill:#0969da}.magenta{fill:#8250df}.cyan{fill:#1b7c83}.dim{fill:#59636e}.b{font-weight:600}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}.screen{fill:#0d1117;stroke:#3d444d}.dot{fill:#3d444d}
.prompt,.green{fill:#3fb950}.red{fill:#ff7b72}.yellow{fill:#d29922}.blue{fill:#58a6ff}.magenta{fill:#bc8cff}.cyan{fill:#39c5cf}.dim{fill:#9198a1}
}
@keyframes show{from{fill-opacity:0}to{fill-opacity:0}}
@media(prefers-reduced-motion:no-preference){tspan{animation:show calc(var(--t)*1s)}}
</style>
<rect class="screen" x=".5" y=".5" width="%.0f" height="%.0f" rx="8"/>
`, width, height, html.EscapeString(c.title), width-1, height-1)
	for i := range 3 {
		fmt.Fprintf(&b, "<circle class=\"dot\" cx=\"%d\" cy=\"16\" r=\"5\"/>\n", 18+16*i)
	}
	for i, l := range c.lines {
		if len(l) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" xml:space="preserve">`, margin, bar+margin+lineHeight*float64(i)+10)
		for _, s := range l {
			class := ""
			if s.class != "" {
				class = fmt.Sprintf(` class="%s"`, s.class)
			}
			fmt.Fprintf(&b, `<tspan%s style="--t:%.2f">%s</tspan>`, class, s.at, html.EscapeString(s.text))
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
