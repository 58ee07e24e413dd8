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

// source is the structs of a package, by name. They are read from its text: reflection does not give comments, nor types
// that are not exported.
type source map[string]*object

type object struct {
	name   string
	doc    string
	fields []field
}

// field is a field that has a name in JSON or YAML.
type field struct {
	name string // there
	of   string // its type in Go, without a pointer
	doc  string
	tag  reflect.StructTag
}

// parse reads the structs of a package whose fields have tags.
func parse(dir string) (source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := source{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, declared := range file.Decls {
			if err := s.add(declared); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s, nil
}

func (s source) add(declared ast.Decl) error {
	types, ok := declared.(*ast.GenDecl)
	if !ok || types.Tok != token.TYPE {
		return nil
	}
	for _, spec := range types.Specs {
		named := spec.(*ast.TypeSpec)
		structure, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		o := &object{name: named.Name.Name, doc: sentence(types.Doc)}
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

func fieldOf(f *ast.Field) (field, error) {
	if f.Tag == nil {
		return field{}, nil
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return field{}, err
	}
	read := field{tag: reflect.StructTag(tag), of: strings.TrimPrefix(types.ExprString(f.Type), "*"), doc: sentence(f.Doc)}
	read.name, _, _ = strings.Cut(cmp.Or(read.tag.Get("json"), read.tag.Get("yaml")), ",")
	return read, nil
}

// sentence is a comment on one line.
func sentence(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// object is a struct that must be there.
func (s source) object(name string) *object {
	o := s[name]
	if o == nil {
		panic(fmt.Sprintf("there is no struct %s with tags: there are %v", name, slices.Sorted(maps.Keys(s))))
	}
	return o
}

// inner is the struct that a field holds, and whether it holds a list of them; nil if it is none.
func (s source) inner(f *field) (o *object, list bool) {
	name, list := strings.CutPrefix(f.of, "[]")
	return s[name], list
}

// built reports whether the field is carried out.
func (f *field) built() bool { return f.of != "later" }

// rules are the bounds of a field by name, from its tag validate.
func (f *field) rules() map[string]string {
	rules := map[string]string{}
	for rule := range strings.SplitSeq(f.tag.Get("validate"), ",") {
		name, param, _ := strings.Cut(rule, "=")
		rules[name] = param
	}
	return rules
}
