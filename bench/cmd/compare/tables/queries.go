package tables

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query is a task of an agent: with calls one by one, whose answers the agent evaluates itself, and with chains. A chain is used if the
// agent knows several calls before it makes the first. A call whose answer it must read before the next one is a chain of one step.
type query struct {
	name     string
	searches bool // waits for a search, whose time is not measured as that of a call
	bare     func(s *shell) any
	chains   func(s *shell) any
}

// queries make fifty calls in all if the calls are made one by one.
var queries = []query{
	{name: "what kind of project is this", bare: projectBare, chains: one(`{"steps":[
{"fn":"list_directory","args":{"path":"PROJECT","depth":1}},
{"fn":"read_file","args":{"path":"PROJECT/package.json"},"select":"fromJSON(split($result, '\\n\\n', 2)[1])"},
{"fn":"list_directory","args":{"path":"PROJECT/dist","depth":1}},
{"fn":"get_file_info","args":{"path":"PROJECT/README.md"},"select":"int(split(split($result, 'lineCount: ')[1], '\\n')[0])"},
{"expr":"filter(split($2, '\\n'), # endsWith '.js')"}],
"return":{"root":"$0","name":"$1.name","version":"$1.version","bin":"$1.bin","scripts":"$4","readme":"$3"},"lite":true}`)},
	{name: "the largest tools", bare: largestBare, chains: one(`{"steps":[
{"id":"dir","fn":"list_directory","args":{"path":"PROJECT/dist/tools","depth":1}},
{"id":"js","expr":"map(filter(split($dir, '\\n'), # endsWith '.js'), trimPrefix(#, '[FILE] '))"},
{"id":"size","forEach":"$js","fn":"get_file_info","args":{"path":"PROJECT/dist/tools/${$item}"},
"select":"int(split(split($result, 'size: ')[1], '\\n')[0])"},
{"expr":"take(sortBy(map(0..len($js)-1, ({file: $js[#], size: $size[#]})), -.size), 3)"}],"lite":true}`)},
	{name: "three functions", searches: true, bare: definitionsBare("performSearchReplace", "getFileHandler", "createErrorResponse"),
		chains: one(definitions("performSearchReplace", "getFileHandler", "createErrorResponse"))},
	{name: "one more function", searches: true, bare: definitionsBare("normalizeLineEndings"),
		chains: one(definitions("normalizeLineEndings"))},
	{name: "how long are these files", bare: linesBare, chains: one(`{"steps":[
{"forEach":"['LICENSE','README.md','package.json','dist/index.js','dist/server.js','dist/version.js']",
"fn":"get_file_info","args":{"path":"PROJECT/${$item}"},
"select":"int(split(split($result, 'lineCount: ')[1], '\\n')[0])"}],"lite":true}`)},
	{name: "parts of files, each after the last", bare: excerptsBare, chains: excerptsAlone},
	{name: "parts of files, at once", bare: headsBare, chains: one(`{"steps":[
{"forEach":"['config','error-handlers','command-manager','track-installation']",
"fn":"read_file","args":{"path":"PROJECT/dist/${$item}.js","length":40}}],"lite":true}`)},
	{name: "a listing and a file, each alone", bare: aloneBare, chains: func(s *shell) any {
		return []any{
			s.chain(`{"steps":[{"fn":"list_directory","args":{"path":"PROJECT/dist/utils","depth":2}}],"lite":true}`),
			s.chain(`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/version.js"}}],"lite":true}`),
		}
	}},
	{name: "files by name", searches: true, bare: matchedBare("schemas"), chains: one(findFiles("schemas"))},
	{name: "more files by name", searches: true, bare: matchedBare("capture"), chains: one(findFiles("capture"))},
}

// one returns a task that a single chain does.
func one(chain string) func(*shell) any {
	chain = strings.ReplaceAll(chain, "\n", "") // as a model writes it
	return func(s *shell) any { return s.chain(chain) }
}

// field returns a number in an answer of get_file_info; -1: it is missing.
func field(info, name string) int {
	_, after, _ := strings.Cut(info, name+": ")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return -1
	}
	return n
}

func projectBare(s *shell) any {
	root := s.ask("list_directory", map[string]any{"path": ".", "depth": 1})
	manifest := s.ask("read_file", map[string]any{"path": "package.json"})
	dist := s.ask("list_directory", map[string]any{"path": "dist", "depth": 1})
	info := s.ask("get_file_info", map[string]any{"path": "README.md"})
	_, text, _ := strings.Cut(manifest, "\n\n")
	var p map[string]any
	_ = json.Unmarshal([]byte(text), &p) // an error shows up in the comparison
	return map[string]any{"root": root, "name": p["name"], "version": p["version"], "bin": p["bin"],
		"scripts": scriptsIn(dist), "readme": field(info, "lineCount")}
}

// scriptsIn returns the lines of a listing that are scripts.
func scriptsIn(listing string) []string {
	return slices.DeleteFunc(strings.Split(listing, "\n"), func(line string) bool { return !strings.HasSuffix(line, ".js") })
}

func largestBare(s *shell) any {
	type fileSize struct {
		File string `json:"file"`
		Size int    `json:"size"`
	}
	var all []fileSize
	for _, line := range scriptsIn(s.ask("list_directory", map[string]any{"path": "dist/tools", "depth": 1})) {
		name := strings.TrimPrefix(line, "[FILE] ")
		all = append(all, fileSize{name, field(s.ask("get_file_info", map[string]any{"path": "dist/tools/" + name}), "size")})
	}
	slices.SortStableFunc(all, func(a, b fileSize) int { return cmp.Compare(b.Size, a.Size) })
	return all[:min(3, len(all))]
}

// hits starts a search, and returns its results when it has ended.
func (s *shell) hits(args map[string]any) string {
	_, after, _ := strings.Cut(s.ask("start_search", args), "session: ")
	id, _, _ := strings.Cut(after, "\n")
	for range 200 { // these calls are not counted: a search would have ended by the time of a model's next call
		text, err := s.answer(s.ctx, "get_more_search_results", fmt.Sprintf(`{"sessionId":%q}`, id))
		if err != nil || strings.Contains(text, "COMPLETED") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s.ask("get_more_search_results", map[string]any{"sessionId": id})
}

// definitionsBare returns a task that reads the definitions of functions.
func definitionsBare(names ...string) func(*shell) any {
	return func(s *shell) any {
		var all []any
		for _, name := range names {
			hits := s.hits(map[string]any{"path": "dist", "pattern": "function " + name + "(", "searchType": "content",
				"filePattern": "*.js", "contextLines": 0, "literalSearch": true})
			_, after, _ := strings.Cut(hits, "📄 ")
			pointer, _, _ := strings.Cut(after, " - ")
			path, line, _ := strings.Cut(strings.TrimPrefix(pointer, s.project), ":")
			n, _ := strconv.Atoi(line)
			all = append(all, s.ask("read_file", map[string]any{"path": path, "offset": n - 1, "length": 30}))
		}
		return all
	}
}

// definitions returns the chain that reads the definitions of functions.
func definitions(names ...string) string {
	list, _ := json.Marshal(names)
	return `{"steps":[{"forEach":"` + strings.ReplaceAll(string(list), `"`, `'`) + `","args":{"name":"$item"},"chain":{"steps":[
{"fn":"start_search","args":{"path":"PROJECT/dist","pattern":"function ${$input.name}(","searchType":"content",
"filePattern":"*.js","contextLines":0,"literalSearch":true},
"select":"split(split($result, 'session: ')[1], '\\n')[0]"},
{"fn":"get_more_search_results","args":{"sessionId":"$0"},"repeat":{"until":"$result contains 'COMPLETED'","max":200,"delayMs":20},
"select":"split(split(split($result, '📄 ')[1], ' - ')[0], ':')"},
{"expr":"int($1[1]) - 1"},
{"fn":"read_file","args":{"path":"$1[0]","offset":"$2","length":30}}]}}],"lite":true}`
}

// matchedBare returns a task that finds files by part of their names.
func matchedBare(name string) func(*shell) any {
	return func(s *shell) any {
		hits := s.hits(map[string]any{"path": ".", "pattern": name, "searchType": "files"})
		var all []string
		for _, piece := range strings.Split(hits, "📁 ")[1:] {
			path, _, _ := strings.Cut(piece, "\n")
			all = append(all, path)
		}
		slices.Sort(all)
		return all
	}
}

// findFiles returns the chain that finds files by part of their names.
func findFiles(name string) string {
	return `{"steps":[{"fn":"start_search","args":{"path":"PROJECT","pattern":"` + name + `","searchType":"files"},
"select":"split(split($result, 'session: ')[1], '\\n')[0]"},
{"fn":"get_more_search_results","args":{"sessionId":"$0"},"repeat":{"until":"$result contains 'COMPLETED'","max":200,"delayMs":20}},
{"expr":"sort(map(split($1, '📁 ')[1:], split(#, '\\n')[0]))"}],"lite":true}`
}

func linesBare(s *shell) any {
	var all []int
	for _, name := range []string{"LICENSE", "README.md", "package.json", "dist/index.js", "dist/server.js", "dist/version.js"} {
		all = append(all, field(s.ask("get_file_info", map[string]any{"path": name}), "lineCount"))
	}
	return all
}

// excerpts are read one after the other, as by an agent that follows one file to the next.
var excerpts = []struct {
	path           string
	offset, length int
}{
	{"README.md", 0, 40}, {"dist/index.js", 0, 60}, {"dist/server.js", 0, 80},
	{"dist/search-manager.js", 100, 80}, {"dist/tools/edit.js", 130, 60},
}

func excerptsBare(s *shell) any {
	var all []any
	for _, p := range excerpts {
		all = append(all, s.ask("read_file", map[string]any{"path": p.path, "offset": p.offset, "length": p.length}))
	}
	return all
}

func excerptsAlone(s *shell) any {
	var all []any
	for _, p := range excerpts {
		all = append(all, s.chain(fmt.Sprintf(`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/%s","offset":%d,"length":%d}}],"lite":true}`,
			p.path, p.offset, p.length)))
	}
	return all
}

func headsBare(s *shell) any {
	var all []any
	for _, name := range []string{"config", "error-handlers", "command-manager", "track-installation"} {
		all = append(all, s.ask("read_file", map[string]any{"path": "dist/" + name + ".js", "length": 40}))
	}
	return all
}

func aloneBare(s *shell) any {
	return []any{
		s.ask("list_directory", map[string]any{"path": "dist/utils", "depth": 2}),
		s.ask("read_file", map[string]any{"path": "dist/version.js"}),
	}
}
