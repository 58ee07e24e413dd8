package main

import (
	"bytes"
	"fmt"
)

// roundTripsPicture draws what a chain saves: the same four calls one by one, and as one chain. The SVG follows the reader's light or
// dark theme.
func roundTripsPicture() []byte {
	p := &drawing{}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 330" role="img" aria-label="Four round trips of a model against one">
<style>
text{font:14px system-ui,sans-serif;fill:#1f2328}.head{font-weight:600}.small{font-size:12px;fill:#59636e}
line,path{stroke:#59636e;stroke-width:1.5}.model{stroke:#cf222e}.inside{stroke:#1a7f37}.life{stroke-dasharray:3 4;stroke-width:1}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}line,path{stroke:#9198a1}.model{stroke:#ff7b72}.inside{stroke:#3fb950}}
</style>
`)
	p.heading(170, "One by one: 4 round trips")
	p.lifeline(70, "model")
	p.lifeline(270, "tools")
	for i := range 4 {
		p.roundTrip(70, 270, 95+52*i, "model", fmt.Sprintf("call %d", i+1), "its whole result")
	}
	p.heading(560, "One chain: 1 round trip")
	p.lifeline(430, "model")
	p.lifeline(560, "onecall")
	p.lifeline(700, "tools")
	p.arrow(430, 560, 95, "model")
	p.label(495, 90, "4 steps")
	for i := range 4 {
		p.roundTrip(560, 700, 108+42*i, "inside", fmt.Sprintf("step %d", i), "")
	}
	p.arrow(560, 430, 288, "model")
	p.label(495, 283, "the answer")
	p.printf("</svg>\n")
	return p.Bytes()
}

// drawing is an SVG. Coordinates are its units from the upper left corner.
type drawing struct{ bytes.Buffer }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) heading(x int, text string) {
	d.printf("<text class=\"head\" x=\"%d\" y=\"24\" text-anchor=\"middle\">%s</text>\n", x, text)
}

// lifeline draws the line of a participant, with its name.
func (d *drawing) lifeline(x int, name string) {
	d.printf("<text x=\"%d\" y=\"58\" text-anchor=\"middle\">%s</text>\n", x, name)
	d.printf("<line class=\"life\" x1=\"%d\" y1=\"68\" x2=\"%d\" y2=\"310\"/>\n", x, x)
}

// roundTrip draws a call and its answer.
func (d *drawing) roundTrip(from, to, y int, class, call, answer string) {
	d.arrow(from, to, y, class)
	d.label((from+to)/2, y-5, call)
	d.arrow(to, from, y+22, class)
	if answer != "" {
		d.label((from+to)/2, y+17, answer)
	}
}

func (d *drawing) arrow(from, to, y int, class string) {
	tip := 7
	if to < from {
		tip = -7
	}
	d.printf("<path class=\"%s\" fill=\"none\" d=\"M%d %dH%dm%d -4l%d 4l%d 4\"/>\n", class, from, y, to, -tip, tip, -tip)
}

func (d *drawing) label(x, y int, text string) {
	d.printf("<text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, y, text)
}
