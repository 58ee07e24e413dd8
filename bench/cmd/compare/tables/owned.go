package tables

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// owned has, for each of the queries, the chains of an agent that works with onecall's own functions of files, without Desktop Commander.
// It writes chains as the skill says. check returns what is wrong with the answers; want is what Desktop Commander answered.
var owned = []struct {
	chains []string
	check  func(s *shell, want any, got []any) string
}{
	{[]string{`{"steps":[{"fs.list":{}},{"fs.cat":{"path":"package.json"},"select":"fromJSON($result.text)"},
{"fs.list":{"path":"dist"},"select":"filter(map($result.entries, .name), # endsWith '.js')"},{"fs.cat":{"path":"README.md","head":1}}],
"return":{"root":"$0.entries[*].name","name":"$1.name","version":"$1.version","bin":"$1.bin","scripts":"$2","readme":"$3.lines"}}`},
		sameProject},
	{[]string{`{"steps":[{"fs.list":{"path":"dist/tools"}},
{"expr":"map(take(sortBy(filter($0.entries, .name endsWith '.js'), -.size), 3), ({file: .name, size: .size}))"}]}`}, same},
	{ownDefinitions("performSearchReplace", "getFileHandler", "createErrorResponse"), sameDefinitions},
	{ownDefinitions("normalizeLineEndings"), sameDefinitions},
	{[]string{`{"steps":[{"forEach":"['LICENSE','README.md','package.json','dist/index.js','dist/server.js','dist/version.js']",
"fs.cat":{"path":"$item","head":1},"select":"$result.lines"}]}`}, same},
	{[]string{ownText(`"path":"README.md","head":40`), ownText(`"path":"dist/index.js","head":60`),
		ownText(`"path":"dist/server.js","head":80`), ownText(`"path":"dist/search-manager.js","from":101,"to":180`),
		ownText(`"path":"dist/tools/edit.js","from":131,"to":190`)}, sameTexts},
	{[]string{`{"steps":[{"forEach":"['config','error-handlers','command-manager','track-installation']",
"fs.cat":{"path":"dist/${$item}.js","head":40},"select":"$result.text"},
{"expr":"join($0, '\\n---\\n')"}],"format":"lines"}`}, sameTextsApart},
	{[]string{`{"steps":[{"fs.list":{"path":"dist/utils","depth":2},
"select":"map($result.entries, trimPrefix(.path, 'dist/utils/'))"}],
"format":"lines"}`, ownText(`"path":"dist/version.js"`)}, sameListing},
	{[]string{ownFiles("schemas")}, sameFiles},
	{[]string{ownFiles("capture")}, sameFiles},
}

// ownConfig is the configuration of the arm: answers are lite unless a chain asks for more.
func ownConfig(project string) harness.Config {
	return harness.Config{"lite": true, "fs": map[string]any{"root": project}}
}

// learns has the agent look up the functions: their names, then the signatures of those that it is going to use. What it needs of fs.find
// is in the example that the tool chain describes itself with.
func (s *shell) learns() {
	s.ask("search", `{"query":"fs"}`)
	s.ask("search", `{"names":["fs.cat","fs.grep","fs.list"],"lite":false}`)
}

// ownText returns the chain that reads a file, or lines of it, as plain text.
func ownText(args string) string {
	return `{"steps":[{"fs.cat":{` + args + `},"select":"$result.text"}],"format":"lines"}`
}

// ownDefinitions returns the chain that reads the definitions of functions: up to the brace that ends one, or 30 lines.
func ownDefinitions(names ...string) []string {
	return []string{`{"steps":[
{"fs.grep":{"pattern":"function (` + strings.Join(names, "|") + `)\\(","glob":"*.js","context":29},
"select":"join(map(flatten(map($result.files, .matches)), split(join(concat([.text], .after), '\\n'), '\\n}')[0]), '\\n---\\n')"}],
"format":"lines"}`}
}

// ownFiles returns the chain that finds files by part of their names.
func ownFiles(name string) string {
	return `{"steps":[{"fs.find":{"pattern":"*` + name + `*"}}],"return":"$0.files"}`
}

// owns does all queries with onecall's own functions, and checks that the answers say what Desktop Commander's said.
func (s *shell) owns(i int, want any) {
	var got []any
	for _, chain := range owned[i].chains {
		got = append(got, s.chain(chain))
	}
	if wrong := owned[i].check(s, want, got); wrong != "" {
		harness.Fail("%s, by onecall's own functions: %s: Desktop Commander %.600v, onecall %.600v", queries[i].name, wrong, want, got)
	}
}

// unequal says what is unequal; "": both values are equal as JSON.
func unequal(what string, want, got any) string {
	if isEqual(want, got) {
		return ""
	}
	return what
}

func same(_ *shell, want any, got []any) string { return unequal("the answer", want, got[0]) }

// sameProject compares the names in the listings, and all else as it is.
func sameProject(_ *shell, want any, got []any) string {
	all, _ := want.(map[string]any)
	root, _ := all["root"].(string)
	scripts, _ := all["scripts"].([]string)
	all["root"], all["scripts"] = namesIn(strings.Split(root, "\n")), namesIn(scripts)
	return unequal("the project", all, got[0])
}

// namesIn returns the names in the lines of a listing, such as [FILE] a.js, sorted.
func namesIn(lines []string) (names []string) {
	for _, line := range lines {
		if _, name, ok := strings.Cut(line, "] "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// header stands before the lines that Desktop Commander reads.
var header = regexp.MustCompile(`^\[Reading [^\n]*\]\n\n`)

// textsIn returns the texts that Desktop Commander has read, without headers and line ends at the end.
func textsIn(value any) (texts []string) {
	list, _ := value.([]any)
	for _, text := range list {
		text, _ := text.(string)
		texts = append(texts, strings.TrimRight(header.ReplaceAllString(text, ""), "\r\n"))
	}
	return texts
}

// apart returns the texts of an answer, in which a line of its own stands between two.
func apart(answer any) (texts []any) {
	text, _ := answer.(string)
	for part := range strings.SplitSeq(text, "\n---\n") {
		texts = append(texts, part)
	}
	return texts
}

func sameTexts(_ *shell, want any, got []any) string {
	return unequal("the texts", textsIn(want), textsIn(got))
}

func sameTextsApart(_ *shell, want any, got []any) string {
	return unequal("the texts", textsIn(want), textsIn(apart(got[0])))
}

// sameDefinitions checks that each text that was read begins with a definition, which ends there or at its brace.
func sameDefinitions(_ *shell, want any, got []any) string {
	found, read := textsIn(apart(got[0])), textsIn(want)
	if len(found) != len(read) {
		return "the number of definitions"
	}
	for _, text := range read {
		if !slices.ContainsFunc(found, func(definition string) bool {
			rest, ok := strings.CutPrefix(text, definition)
			return ok && (rest == "" || strings.HasPrefix(rest, "\n}"))
		}) {
			return "a definition"
		}
	}
	return ""
}

func sameListing(_ *shell, want any, got []any) string {
	list, _ := want.([]any)
	listing, _ := list[0].(string)
	paths, _ := got[0].(string)
	if wrong := unequal("the listing", namesIn(strings.Split(listing, "\n")), slices.Sorted(strings.SplitSeq(paths, "\n"))); wrong != "" {
		return wrong
	}
	return unequal("the text", textsIn(list[1:]), textsIn(got[1:]))
}

// sameFiles compares paths, of which onecall's are relative to the project.
func sameFiles(s *shell, want any, got []any) string {
	absolute, _ := want.([]string)
	var list []string
	for _, path := range absolute {
		list = append(list, strings.TrimPrefix(path, s.project+"/"))
	}
	return unequal("the files", list, got[0])
}
