package clients

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Report describes the import, and shows the file to write without its secrets.
func (im *Import) Report(text []byte, out string) []byte {
	var b bytes.Buffer
	for _, problem := range im.problems {
		fmt.Fprintf(&b, "cannot be read: %s\n", textfile.Printable(problem))
	}
	var last *clientFile
	for _, srv := range im.servers {
		if last != srv.file {
			last = srv.file
			fmt.Fprintf(&b, "%s\n", textfile.Printable(last.label()))
		}
		state := "taken over"
		switch {
		case srv.skip != "":
			state = "left out: " + srv.skip
		case len(srv.unset) > 0:
			state = "taken over as disabled: " + strings.Join(srv.unset, ", ") + " not set"
		}
		fmt.Fprintf(&b, "  %s: %s\n", textfile.Printable(srv.name), textfile.Printable(state))
		for _, comment := range srv.comments {
			fmt.Fprintf(&b, "    %s\n", textfile.Printable(comment))
		}
	}
	if !slices.ContainsFunc(im.servers, func(srv *clientServer) bool { return srv.skip == "" }) {
		b.WriteString("No MCP servers to import were found")
		if len(im.missing) > 0 {
			b.WriteString(". There is no\n")
			for _, path := range im.missing {
				fmt.Fprintf(&b, "  %s\n", textfile.Printable(path))
			}
		} else {
			b.WriteString(".\n")
		}
	}
	fmt.Fprintf(&b, "\n%s would be:\n\n", textfile.Printable(out))
	for line := range strings.Lines(string(im.redacted(text))) {
		b.WriteString(strings.TrimRight("    "+textfile.Printable(strings.TrimRight(line, "\n")), " ") + "\n")
	}
	return b.Bytes()
}

var masks = regexp.MustCompile(`\*{3,}`)

// redacted returns the file with its secrets masked. It decodes the file to find them.
func (im *Import) redacted(text []byte) []byte {
	c, _ := config.Parse(filepath.Join(im.out, "onecall.yaml"), text, im.lookup)
	before, after := bytes.Split(text, []byte{'\n'}), bytes.Split(c.Redacted, []byte{'\n'})
	for i := range after {
		if i < len(before) && bytes.HasPrefix(bytes.TrimSpace(before[i]), []byte{'#'}) {
			after[i] = before[i] // comments are written by init
		} else if i < len(before) && !bytes.Equal(before[i], after[i]) {
			after[i] = masks.ReplaceAll(after[i], []byte("******")) // hides the length of the secret
		}
	}
	return bytes.Join(after, []byte{'\n'})
}
