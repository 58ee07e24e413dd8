package cast

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestCommand checks colors, overwritten progress lines, and lines longer than the terminal.
func TestCommand(t *testing.T) {
	t.Parallel()
	c := New("a <title>", 10)
	c.Command("run it", "1/2 busy\r\x1b[K\x1b[1;31mno\x1b[0m & why\nabcdefghijklm\n")
	if got, want := c.Text(), "$ run it\nno & why\nabcdefghij\nklm\n"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	svg := string(c.SVG())
	if !strings.Contains(svg, `<tspan class="b red" style="--t:`) ||
		!strings.Contains(svg, "> &amp; why</tspan>") || strings.Contains(svg, "\x1b") {
		t.Errorf("got %s, want bold red text, escaped, without control codes", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
