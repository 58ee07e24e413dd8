package clients

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Report shows what the plan changes, without secrets: which servers move and which stay, then each file's difference. Of the
// client's own entries it shows the names.
func (p *Plan) Report() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", textfile.Printable(p.client.Title+", "+p.file))
	line := func(name, what string) {
		fmt.Fprintf(&b, "  %s: %s\n", textfile.Printable(name), textfile.Printable(what))
	}
	for _, one := range p.moved {
		switch {
		case one.twin != nil && one.twin.present:
			line(one.original, "moves: it is in onecall's configuration already")
		case one.twin != nil:
			line(one.original, "moves: it is the same as "+one.twin.original)
		case one.name != one.original:
			line(one.original, "moves, as "+one.name+": that name is taken")
		default:
			line(one.original, "moves")
		}
	}
	for _, one := range p.stays {
		line(one.original, "stays: "+one.skip)
	}
	for _, note := range p.notes {
		fmt.Fprintf(&b, "  %s\n", textfile.Printable(note))
	}
	p.showConfiguration(&b)
	p.showFile(&b)
	if p.command != nil && len(p.put) > 0 {
		fmt.Fprintf(&b, "onecall is added by the client's own command:\n  %s\n", textfile.Printable(strings.Join(p.command, " ")))
	}
	return b.Bytes()
}

// showConfiguration shows the lines that the configuration gets. They stand together.
func (p *Plan) showConfiguration(b *bytes.Buffer) {
	if p.configNew == nil {
		return
	}
	header(b, p.config, p.configOld == nil, false)
	old, now := lines(p.configOld), lines(p.configNew)
	shown := lines(p.im.shown(p.configNew))
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
	if len(p.taken)+len(p.put) == 0 {
		return
	}
	header(b, p.file, p.before == nil, p.after == nil)
	key := strings.Join(p.client.servers.path, ".") + "."
	for _, one := range p.taken {
		fmt.Fprintf(b, "- %s\n", textfile.Printable(key+one.Name))
	}
	for _, one := range p.put {
		if one.Name != ownName || p.im == nil {
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

func header(b *bytes.Buffer, path string, isNew, isRemoved bool) {
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

// Notes are what came up while the plan was carried out.
func (p *Plan) Notes() []string { return p.notes }
