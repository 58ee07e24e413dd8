package draw

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// colors are those of pictures, in light and in dark.
var colors = map[string][2]string{
	"paper":   {"#ffffff", "#0d1117"},
	"node":    {"#f6f8fa", "#161b22"},
	"ink":     {"#1f2328", "#f0f6fc"},
	"muted":   {"#59636e", "#9198a1"},
	"ok":      {"#1a7f37", "#3fb950"},
	"failed":  {"#cf222e", "#ff7b72"},
	"waiting": {"#9a6700", "#d29922"},
	"running": {"#0969da", "#58a6ff"},
	"reused":  {"#6639ba", "#bc8cff"},
	"undone":  {"#bc4c00", "#f0883e"},
}

// rules are the style of pictures. $name is a color.
const rules = `.draw{background:$paper}.draw text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:$ink}
.draw .b{font-weight:600}.draw .m{fill:$muted;font-size:11px}.draw .c{text-anchor:middle}
.draw .n{fill:$node;stroke:$muted}.draw .e,.draw .o,.draw .l{fill:none;stroke:$muted}.draw .o{stroke-dasharray:2 4}
.draw .a{fill:$muted}.draw .l{opacity:.4}.draw .g{fill:$muted;opacity:.2}.draw a:hover .n,.draw a:focus .n{stroke:$ink;stroke-width:2}
.draw .s-none{fill:$muted}.draw .s-ok{fill:$ok}.draw .s-failed{fill:$failed}.draw .s-waiting{fill:$waiting}.draw .s-running{fill:$running}
.draw .s-reused{fill:$reused}.draw .s-undone{fill:$undone}.draw .s-not-run{fill:$node;stroke:$muted;stroke-dasharray:3 2}
`

// Stylesheet returns the CSS of pictures in a page. Each color is a variable, such as --draw-ink, which a later rule of the page for :root
// may set.
func Stylesheet() string {
	variables := func(scheme int) string {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(colors)) {
			b.WriteString("--draw-" + name + ":" + colors[name][scheme] + ";")
		}
		return ":root{" + b.String() + "}"
	}
	return variables(0) + "\n@media(prefers-color-scheme:dark){" + variables(1) + "}\n" +
		colored(func(name string) string { return "var(--draw-" + name + ")" })
}

// fileRules are the rules of a picture that is a file. Many programs that show such files know no variables.
var fileRules = func() string {
	scheme := func(n int) string {
		return colored(func(name string) string { return colors[name][n] })
	}
	return "<style>\n" + scheme(0) + "@media(prefers-color-scheme:dark){\n" + scheme(1) + "}\n</style>\n"
}()

// colored returns the rules with their colors.
func colored(color func(name string) string) string {
	var pairs []string
	for name := range colors {
		pairs = append(pairs, "$"+name, color(name))
	}
	return strings.NewReplacer(pairs...).Replace(rules)
}

// File returns a picture, as SVG makes it, as a file of its own.
func File(picture []byte) []byte {
	head, rest, _ := bytes.Cut(picture, []byte{'>'})
	return slices.Concat(head, []byte(">\n"+fileRules), rest)
}
