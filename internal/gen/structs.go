package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// structs are the structs of a package, by name. They are read from its source, because reflection gives neither comments nor
// unexported types.
type structs map[string]*structType

type structType struct {
	name   string
	doc    string
	fields []field
}

// field is a field that has a name in JSON or YAML.
type field struct {
	name   string // the name in JSON or YAML
	goType string // the type in Go, without the * of a pointer
	doc    string
	tag    reflect.StructTag
}

// parseStructs reads the structs of a package. Fields without a name in JSON or YAML are left out.
func parseStructs(dir string) (structs, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := structs{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if err := s.addDecl(decl); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s, nil
}

// addDecl adds the structs that a declaration defines, if any.
func (s structs) addDecl(decl ast.Decl) error {
	types, ok := decl.(*ast.GenDecl)
	if !ok || types.Tok != token.TYPE {
		return nil
	}
	for _, spec := range types.Specs {
		typeSpec := spec.(*ast.TypeSpec)
		structure, ok := typeSpec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		o := &structType{name: typeSpec.Name.Name, doc: oneLine(types.Doc)}
		for _, f := range structure.Fields.List {
			read, err := fieldOf(f)
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			if read.name != "" {
				o.fields = append(o.fields, read)
			}
		}
		s[o.name] = o
	}
	return nil
}

// fieldOf reads a field. The name of the result is "" if the field has no name in JSON or YAML.
func fieldOf(f *ast.Field) (field, error) {
	if f.Tag == nil {
		return field{}, nil
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return field{}, err
	}
	read := field{tag: reflect.StructTag(tag), goType: strings.TrimPrefix(types.ExprString(f.Type), "*"), doc: oneLine(f.Doc)}
	read.name, _, _ = strings.Cut(cmp.Or(read.tag.Get("json"), read.tag.Get("yaml")), ",")
	return read, nil
}

// oneLine returns a comment on one line.
func oneLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// mustGet returns a struct. It panics if there is none with this name.
func (s structs) mustGet(name string) *structType {
	o := s[name]
	if o == nil {
		panic(fmt.Sprintf("there is no struct %s: there are %v", name, slices.Sorted(maps.Keys(s))))
	}
	return o
}

// innerStruct returns the struct that a field holds and whether it holds a list of them; nil if it holds no struct.
func (s structs) innerStruct(f *field) (o *structType, list bool) {
	name, list := strings.CutPrefix(f.goType, "[]")
	return s[name], list
}

// rules returns the rules in the tag validate, by name.
func (f *field) rules() map[string]string {
	rules := map[string]string{}
	for rule := range strings.SplitSeq(f.tag.Get("validate"), ",") {
		name, param, _ := strings.Cut(rule, "=")
		rules[name] = param
	}
	return rules
}
