// Command count measures the repository: go -C .ci/count run . ROOT prints the lines of Go by kind and package, the exported names that no
// other package uses, and the lines of test files that use unexported names.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/onecall-mcp/onecall"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: count ROOT")
	}
	if err := os.Chdir(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	loaded, err := packages.Load(&packages.Config{Tests: true,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedForTest},
		"./...")
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(loaded) > 0 {
		os.Exit(1)
	}
	printLines(loaded)
	printUnused(loaded)
	printWhiteBox(loaded)
}

// supportPackage matches the packages that only tests import.
var supportPackage = regexp.MustCompile(`(^|/)(datasets|e2e|transcript|` +
	`(store|steps|mcp|journal|postgres|poll|port)test)(/|$)`)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// kindOf returns what a Go file is for.
func kindOf(path string, text []byte) string {
	switch {
	case strings.HasSuffix(path, "_test.go"):
		return "tests"
	case supportPackage.MatchString(filepath.ToSlash(filepath.Dir(path))):
		return "test support"
	case generated.Match(text):
		return "generated"
	}
	return "code"
}

// printLines prints the number of lines of all Go files in the module, whatever their build constraints. It skips nested modules.
func printLines(loaded []*packages.Package) {
	kinds, byPackage := map[string]int{}, map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (name[0] == '.' || name == "testdata" || isModule(path)):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		kind, n := kindOf(path, text), bytes.Count(text, []byte("\n"))
		if kinds[kind] += n; kind == "code" {
			byPackage[filepath.Dir(path)] += n
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lines of Go")
	printCounts(kinds)
	fmt.Printf("  %7d code and test support\n\nlines of code by package\n", kinds["code"]+kinds["test support"])
	printCounts(byPackage)
}

// isModule reports whether a folder is the root of another module.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// printCounts prints numbers, the largest first.
func printCounts(numbers map[string]int) {
	keys := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		if numbers[a] != numbers[b] {
			return numbers[b] - numbers[a]
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		fmt.Printf("  %7d %s\n", numbers[key], key)
	}
}

// position returns the file position of an object. It identifies the object, which is loaded several times: with tests and without.
func position(fset *token.FileSet, object types.Object) string {
	return fset.Position(object.Pos()).String()
}

// printUnused prints the exported names that no other package of the module uses outside of tests, and that neither docs/library.md
// nor an example shows.
func printUnused(loaded []*packages.Package) {
	declared, used := map[string]string{}, map[string]bool{}
	var examples bytes.Buffer
	if text, err := os.ReadFile("docs/library.md"); err == nil {
		examples.Write(text)
	}
	for _, p := range loaded {
		for _, file := range p.Syntax {
			if path := p.Fset.Position(file.Pos()).Filename; strings.HasSuffix(path, "example_test.go") {
				text, _ := os.ReadFile(path)
				examples.Write(text)
			}
		}
		if p.Name == "main" || strings.HasSuffix(p.ID, ".test") {
			continue
		}
		for _, object := range exported(p.Types.Scope()) {
			if pos := position(p.Fset, object); !strings.HasSuffix(p.Fset.Position(object.Pos()).Filename, "_test.go") &&
				!supportPackage.MatchString(p.PkgPath) {
				declared[pos] = strings.TrimPrefix(p.PkgPath, module+"/") + "." + describe(object)
			}
		}
	}
	mark := func(fset *token.FileSet, object types.Object) { used[position(fset, object)] = true }
	for _, p := range loaded {
		for id, object := range p.TypesInfo.Uses {
			isTest := strings.HasSuffix(p.Fset.Position(id.Pos()).Filename, "_test.go")
			if object.Pkg() != nil && object.Pkg().Path() != p.PkgPath && !isTest {
				mark(p.Fset, object)
				for v := range signatureVars(object) {
					for named := range namedIn(v.Type()) {
						mark(p.Fset, named.Obj())
					}
				}
			}
		}
	}
	interfaces := interfaceMethods(loaded)
	fmt.Println("\nexported names that no other package uses and no example shows")
	var names []string
	for pos, name := range declared {
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name[strings.LastIndex(name, ".")+1:]) + `\b`)
		if !used[pos] && !interfaces[word.String()] && !word.Match(examples.Bytes()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		fmt.Println("         ", name)
	}
	fmt.Printf("  %7d names\n", len(slices.Compact(names)))
}

// signatureVars yields the variables whose types are used with an object: the parameters and results of a function, or a field itself.
func signatureVars(object types.Object) iter.Seq[*types.Var] {
	return func(yield func(*types.Var) bool) {
		if field, ok := object.(*types.Var); ok && field.IsField() {
			yield(field)
		}
		f, ok := object.(*types.Func)
		if !ok {
			return
		}
		for _, tuple := range []*types.Tuple{f.Signature().Params(), f.Signature().Results()} {
			for v := range tuple.Variables() {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// namedIn yields the named types in a type: behind pointers and slices, and among type arguments.
func namedIn(t types.Type) iter.Seq[*types.Named] {
	return func(yield func(*types.Named) bool) {
		switch t := t.(type) {
		case *types.Pointer:
			namedIn(t.Elem())(yield)
		case *types.Slice:
			namedIn(t.Elem())(yield)
		case *types.Named:
			if !yield(t) {
				return
			}
			for argument := range t.TypeArgs().Types() {
				for named := range namedIn(argument) {
					if !yield(named) {
						return
					}
				}
			}
		}
	}
}

// interfaceMethods returns patterns for the names of the methods of all interfaces in the module.
func interfaceMethods(loaded []*packages.Package) map[string]bool {
	names := map[string]bool{}
	for _, p := range loaded {
		for _, object := range p.TypesInfo.Defs {
			if t, ok := object.(*types.TypeName); ok {
				if i, ok := t.Type().Underlying().(*types.Interface); ok {
					for method := range i.Methods() {
						names[`\b`+method.Name()+`\b`] = true
					}
				}
			}
		}
	}
	return names
}

// exported returns the exported names of a package, and the exported methods of its types except externalMethods.
func exported(scope *types.Scope) (list []types.Object) {
	for _, name := range scope.Names() {
		object := scope.Lookup(name)
		if !object.Exported() {
			continue
		}
		list = append(list, object)
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !ok || !isType {
			continue
		}
		for method := range named.Methods() {
			if method.Exported() && !externalMethods[method.Name()] {
				list = append(list, method)
			}
		}
	}
	return list
}

// externalMethods are methods that implement interfaces of the standard library, or of libraries that call onecall.
var externalMethods = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true, "Read": true, "Write": true, "Close": true,
	"RoundTrip": true, "MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true, "LogValue": true,
	"ServeHTTP": true, "CloseIdleConnections": true}

func describe(object types.Object) string {
	if f, ok := object.(*types.Func); ok {
		if receiver := f.Signature().Recv(); receiver != nil {
			name := receiver.Type().String()
			return name[strings.LastIndex(name, ".")+1:] + "." + f.Name()
		}
	}
	return object.Name()
}

// printWhiteBox prints the number of lines of the test files that use an unexported name declared outside of tests.
func printWhiteBox(loaded []*packages.Package) {
	byPackage, total := map[string]int{}, 0
	for _, p := range loaded {
		for _, file := range p.Syntax {
			path := p.Fset.Position(file.Pos()).Filename
			if !strings.HasSuffix(path, "_test.go") || p.Name == "main" || !usesUnexported(p, file) {
				continue
			}
			n := p.Fset.File(file.Pos()).LineCount()
			byPackage[strings.TrimPrefix(p.PkgPath, module+"/")] += n
			total += n
		}
	}
	fmt.Println("\nlines of test files that use unexported names, except in main packages")
	printCounts(byPackage)
	fmt.Printf("  %7d in total\n", total)
}

// usesUnexported reports whether a test file uses an unexported name of its package, or an unexported field, that is declared outside of
// tests.
func usesUnexported(p *packages.Package, file *ast.File) (uses bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		id, ok := node.(*ast.Ident)
		if !ok || uses {
			return !uses
		}
		object := p.TypesInfo.Uses[id]
		if object == nil || object.Exported() || object.Pkg() != p.Types {
			return true
		}
		if v, ok := object.(*types.Var); object.Parent() == p.Types.Scope() || ok && v.IsField() {
			uses = !strings.HasSuffix(p.Fset.Position(object.Pos()).Filename, "_test.go")
		}
		return !uses
	})
	return uses
}
