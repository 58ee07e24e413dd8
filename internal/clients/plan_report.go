package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Report describes what the plan changes, without secrets: which servers move and which stay, and the difference of each file. It shows
// the client's other entries only by name.
func (p *Plan) Report() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", textfile.Printable(p.client.Title+", "+p.file))
	line := func(name, text string) {
		fmt.Fprintf(&b, "  %s: %s\n", textfile.Printable(name), textfile.Printable(text))
	}
	for _, srv := range p.moved {
		switch {
		case srv.duplicateOf != nil && srv.duplicateOf.configured:
			line(srv.original, "moves: it is in onecall's configuration already")
		case srv.duplicateOf != nil:
			line(srv.original, "moves: it is the same as "+srv.duplicateOf.original)
		case srv.name != srv.original:
			line(srv.original, "moves, as "+srv.name+": that name is taken")
		default:
			line(srv.original, "moves")
		}
	}
	for _, srv := range p.stays {
		line(srv.original, "stays: "+srv.skip)
	}
	if names := p.reached(); len(names) > 0 {
		fmt.Fprintf(&b, "  through onecall it also reaches the servers of other clients, with their credentials: %s\n",
			textfile.Printable(strings.Join(names, ", ")))
	}
	for _, warning := range p.warnings {
		fmt.Fprintf(&b, "  %s\n", textfile.Printable(warning))
	}
	p.showConfiguration(&b)
	p.showFile(&b)
	if p.command != nil && len(p.inserted) > 0 {
		fmt.Fprintf(&b, "onecall is added by the client's own command:\n  %s\n", textfile.Printable(strings.Join(p.command, " ")))
	}
	return b.Bytes()
}

// reached returns the names of the servers that the client has not had, and reaches once onecall is installed.
func (p *Plan) reached() (names []string) {
	if p.im == nil || len(p.inserted) == 0 {
		return nil
	}
	for _, srv := range p.im.servers {
		had := func(moved *clientServer) bool { return moved.duplicateOf == srv }
		if srv.configured && !srv.disabled && !slices.ContainsFunc(p.moved, had) {
			names = append(names, srv.name)
		}
	}
	return names
}

// showConfiguration shows the lines that are added to the configuration. They are contiguous, so they are what lies between the common
// beginning and the common end of the old and the new text.
func (p *Plan) showConfiguration(b *bytes.Buffer) {
	if p.configNew == nil {
		return
	}
	writeHeader(b, p.config, p.configOld == nil, false)
	old, now := lines(p.configOld), lines(p.configNew)
	shown := lines(p.im.redacted(p.configNew))
	from := 0
	for from < min(len(old), len(now)) && old[from] == now[from] {
		from++
	}
	to := len(now)
	for n := len(old); n > from && to > from && old[n-1] == now[to-1]; n-- {
		to--
	}
	for _, text := range shown[from:min(to, len(shown))] {
		fmt.Fprintf(b, "+ %s\n", textfile.Printable(text))
	}
}

func (p *Plan) showFile(b *bytes.Buffer) {
	if len(p.removed)+len(p.inserted) == 0 {
		return
	}
	writeHeader(b, p.file, p.before == nil, p.after == nil)
	key := strings.Join(p.client.servers.path, ".") + "."
	for _, one := range p.removed {
		fmt.Fprintf(b, "- %s\n", textfile.Printable(key+one.Name))
	}
	for _, one := range p.inserted {
		if one.Name != onecallName || p.im == nil {
			fmt.Fprintf(b, "+ %s\n", textfile.Printable(key+one.Name))
			continue
		}
		all := lines([]byte(one.Text))
		depth, _ := indent(all[len(all)-1]) // the first line of JSON has no indentation of its own
		if formatOf(p.file) == jsonFormat {
			all[0] = strings.Repeat(" ", depth) + all[0]
		}
		for _, text := range all {
			fmt.Fprintf(b, "+ %s\n", textfile.Printable(text))
		}
	}
}

func writeHeader(b *bytes.Buffer, path string, isNew, isRemoved bool) {
	from, to := path, path
	if isNew {
		from = "(no file)"
	}
	if isRemoved {
		to = "(no file)"
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", textfile.Printable(from), textfile.Printable(to))
}

func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// Warnings returns the warnings of the plan and, after Apply, also those of Apply. Report shows those of the plan.
func (p *Plan) Warnings() []string { return p.warnings }
