package clients

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Report tells what was found, and shows the file to write without its secrets.
func (im *Import) Report(text []byte, out string) []byte {
	var b bytes.Buffer
	for _, problem := range im.problems {
		fmt.Fprintf(&b, "cannot be read: %s\n", textfile.Printable(problem))
	}
	var last *clientFile
	for _, one := range im.servers {
		if last != one.file {
			last = one.file
			fmt.Fprintf(&b, "%s\n", textfile.Printable(last.label()))
		}
		state := "taken over"
		switch {
		case one.skip != "":
			state = "left out: " + one.skip
		case len(one.unset) > 0:
			state = "taken over as disabled: not set is " + strings.Join(one.unset, ", ")
		}
		fmt.Fprintf(&b, "  %s: %s\n", textfile.Printable(one.name), textfile.Printable(state))
		for _, note := range one.notes {
			fmt.Fprintf(&b, "    %s\n", textfile.Printable(note))
		}
	}
	if !slices.ContainsFunc(im.servers, func(one *found) bool { return one.skip == "" }) {
		b.WriteString("No MCP servers to take over were found")
		if len(im.looked) > 0 {
			b.WriteString(". There is no\n")
			for _, path := range im.looked {
				fmt.Fprintf(&b, "  %s\n", textfile.Printable(path))
			}
		} else {
			b.WriteString(".\n")
		}
	}
	fmt.Fprintf(&b, "\n%s would be:\n\n", textfile.Printable(out))
	for line := range strings.Lines(string(im.shown(text))) {
		b.WriteString(strings.TrimRight("    "+textfile.Printable(strings.TrimRight(line, "\n")), " ") + "\n")
	}
	return b.Bytes()
}

// shown is the file with its secrets redacted, as they are known once it is read.
func (im *Import) shown(text []byte) []byte {
	c, _ := config.Parse(filepath.Join(im.out, "onecall.yaml"), text, im.lookup)
	before, after := bytes.Split(text, []byte{'\n'}), bytes.Split(c.Shown, []byte{'\n'})
	for i := range after {
		if i < len(before) && bytes.HasPrefix(bytes.TrimSpace(before[i]), []byte{'#'}) {
			after[i] = before[i] // a comment is init's own
		}
	}
	return bytes.Join(after, []byte{'\n'})
}
