package files

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// maxOutlineBytes bounds a text whose symbols are looked for: a syntax tree takes many times the memory of its text.
const maxOutlineBytes = 4 << 20

// symbol is a part of a text that has a name: a declaration in Go, a section in Markdown.
type symbol struct {
	Symbol string `json:"symbol"` // Name, Type.Method, or the text of the heading
	From   int    `json:"from"`   // the first line: that of the doc comment or of the heading
	To     int    `json:"to"`
	Level  int    `json:"level,omitempty"` // of a heading, from 1
	Text   string `json:"text,omitempty"`  // the declaration on one line, without bodies
}

// outlines has, by extension, how to find the symbols of a text, in the order of their lines. problem says why there may be more; "": all
// were found.
var outlines = map[string]func(text []byte) (symbols []symbol, problem string){
	".go": goOutline, ".md": markdownOutline, ".markdown": markdownOutline,
}

// showSymbols sets the outline, or the text of the symbol of a name.
func (c *catResult) showSymbols(f *regularFile, a *catArgs, maxBytes int64) error {
	outline := outlines[strings.ToLower(path.Ext(c.Path))]
	if outline == nil {
		return atPath(fault.New(fault.FunctionFailed, "outline and symbol know Go and Markdown (.go, .md, .markdown), not %q: fs.grep finds "+
			"definitions, and from and to read their lines", fault.Short(path.Base(c.Path))))
	}
	text, err := c.readText(f, min(maxBytes, maxOutlineBytes))
	if err != nil {
		return err
	}
	symbols, problem := outline(text)
	c.SyntaxError = problem
	if a.Symbol == nil {
		c.Outline = &symbols
		return nil
	}
	found, failed := lookUp(symbols, *a.Symbol)
	if failed != nil {
		if problem != "" {
			failed.Message += "; the file has syntax errors: " + problem
		}
		return failed
	}
	c.showRange(text, found.From, found.To)
	return nil
}

// lookUp finds the symbol that a name means: its own, or that of a method without its type. Marks of a heading before the name are ignored.
func lookUp(symbols []symbol, name string) (symbol, *fault.Error) {
	heading := strings.TrimSpace(strings.TrimLeft(name, "#"))
	var found []symbol
	for _, s := range symbols {
		if s.Symbol == name || s.Level > 0 && s.Symbol == heading {
			found = append(found, s)
		}
	}
	if found == nil {
		for _, s := range symbols {
			if _, method, _ := strings.Cut(s.Symbol, "."); s.Level == 0 && method == name {
				found = append(found, s)
			}
		}
	}
	switch len(found) {
	case 0:
		names := make([]string, len(symbols))
		for i, s := range symbols {
			names[i] = s.Symbol
		}
		f := badSymbol("no symbol has the name %q: outline lists them", fault.Short(name))
		if f.Nearest = fault.Nearest(name, names, 3); len(f.Nearest) > 0 {
			f.Message += "; nearest: " + strings.Join(f.Nearest, ", ")
		}
		return symbol{}, f
	case 1:
		return found[0], nil
	}
	const maxPlaces = 10
	var places []string
	for _, s := range found[:min(len(found), maxPlaces)] {
		place := "lines " + strconv.Itoa(s.From) + "-" + strconv.Itoa(s.To)
		if s.Symbol != name && s.Level == 0 {
			place = s.Symbol + " in " + place
		}
		places = append(places, place)
	}
	return symbol{}, badSymbol("%d symbols have the name %q: %s; read one by from and to", len(found), fault.Short(name),
		strings.Join(places, ", "))
}

func badSymbol(format string, args ...any) *fault.Error {
	f := fault.New(fault.FunctionFailed, format, args...)
	f.At = "/symbol"
	return f
}

// lineNumbers converts ascending positions in a text to numbers of lines.
type lineNumbers struct {
	starts []int // of the lines
}

func newLineNumbers(text []byte) *lineNumbers {
	n := &lineNumbers{starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			n.starts = append(n.starts, i+1)
		}
	}
	return n
}

// at returns the number, from 1, of the line that contains a position.
func (n *lineNumbers) at(position int) int {
	i, exact := slices.BinarySearch(n.starts, position)
	if exact {
		return i + 1
	}
	return i
}

// oneLine joins the lines of a declaration, and cuts it to maxShown characters.
func oneLine(text string) string {
	text = text[:min(len(text), 2*utf8.UTFMax*maxShown)]
	return fault.ClipRunes(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), ""), maxShown)
}
