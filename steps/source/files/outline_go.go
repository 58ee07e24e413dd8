package files

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// goOutline returns the declarations of a Go file, except imports: of one with syntax errors, those that the parser could still read.
func goOutline(text []byte) ([]symbol, string) {
	o := &goSymbols{text: text, files: token.NewFileSet(), list: []symbol{}}
	file, err := parser.ParseFile(o.files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	problem := ""
	if err != nil {
		problem = oneLine(err.Error())
	}
	if file == nil {
		return o.list, problem
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			o.function(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				o.spec(d, spec)
			}
		}
	}
	return o.list, problem
}

// goSymbols collects the symbols of a Go file.
type goSymbols struct {
	text  []byte
	files *token.FileSet
	list  []symbol
}

// add adds a symbol whose declaration is node, below its comment. Its text is the declaration up to end.
func (o *goSymbols) add(name string, doc *ast.CommentGroup, node ast.Node, keyword string, start, end token.Pos) {
	if name == "_" {
		return
	}
	from := node.Pos()
	if doc != nil {
		from = doc.Pos()
	}
	first := o.at(from).Line
	o.list = append(o.list, symbol{Symbol: name, From: first, To: max(first, o.at(node.End()).Line),
		Text: oneLine(keyword + o.source(start, end))})
}

// at returns the place of a position; comments such as "//line x.y:1" do not count. After a syntax error, an end may be unknown: the zero
// place.
func (o *goSymbols) at(p token.Pos) token.Position { return o.files.PositionFor(p, false) }

func (o *goSymbols) source(from, to token.Pos) string {
	start := o.at(from).Offset
	return string(o.text[start:max(start, o.at(to).Offset)])
}

func (o *goSymbols) function(d *ast.FuncDecl) {
	name := d.Name.Name
	if d.Recv != nil && len(d.Recv.List) > 0 {
		if receiver := typeName(d.Recv.List[0].Type); receiver != "" {
			name = receiver + "." + name
		}
	}
	o.add(name, d.Doc, d, "", d.Pos(), d.Type.End())
}

// typeName returns the name of a receiver's type; "": the receiver has none, which is a syntax error.
func typeName(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.Ident:
			return t.Name
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		default:
			return ""
		}
	}
}

// spec adds the names of one line of a declaration, which may be a group in parentheses.
func (o *goSymbols) spec(d *ast.GenDecl, spec ast.Spec) {
	node, doc := ast.Node(spec), (*ast.CommentGroup)(nil)
	if !d.Lparen.IsValid() {
		node, doc = d, d.Doc
	}
	keyword := d.Tok.String() + " "
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if doc == nil {
			doc = s.Doc
		}
		end := s.End()
		switch t := s.Type.(type) { // the members are left out
		case *ast.StructType:
			end = t.Fields.Pos()
		case *ast.InterfaceType:
			end = t.Methods.Pos()
		}
		o.add(s.Name.Name, doc, node, keyword, s.Pos(), end)
	case *ast.ValueSpec:
		if doc == nil {
			doc = s.Doc
		}
		for _, name := range s.Names {
			o.add(name.Name, doc, node, keyword, s.Pos(), s.End())
		}
	}
}
