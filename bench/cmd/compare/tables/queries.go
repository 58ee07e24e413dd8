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
	chains   []string // the result is the chain's answer, or the list of several chains' answers
}

// queries make fifty calls in all if the calls are made one by one.
var queries = []query{
	{"what kind of project is this", false, projectBare, []string{`{"steps":[
{"fn":"list_directory","args":{"path":"PROJECT","depth":1}},
{"fn":"read_file","args":{"path":"PROJECT/package.json"},"select":"fromJSON(split($result, '\\n\\n', 2)[1])"},
{"fn":"list_directory","args":{"path":"PROJECT/dist","depth":1}},
{"fn":"get_file_info","args":{"path":"PROJECT/README.md"},"select":"int(split(split($result, 'lineCount: ')[1], '\\n')[0])"},
{"expr":"filter(split($2, '\\n'), # endsWith '.js')"}],
"return":{"root":"$0","name":"$1.name","version":"$1.version","bin":"$1.bin","scripts":"$4","readme":"$3"},"lite":true}`}},
	{"the largest tools", false, largestBare, []string{`{"steps":[
{"id":"dir","fn":"list_directory","args":{"path":"PROJECT/dist/tools","depth":1}},
{"id":"js","expr":"map(filter(split($dir, '\\n'), # endsWith '.js'), trimPrefix(#, '[FILE] '))"},
{"id":"size","forEach":"$js","fn":"get_file_info","args":{"path":"PROJECT/dist/tools/${$item}"},
"select":"int(split(split($result, 'size: ')[1], '\\n')[0])"},
{"expr":"take(sortBy(map(0..len($js)-1, ({file: $js[#], size: $size[#]})), -.size), 3)"}],"lite":true}`}},
	{"three functions", true, definitionsBare("performSearchReplace", "getFileHandler", "createErrorResponse"),
		definitions("performSearchReplace", "getFileHandler", "createErrorResponse")},
	{"one more function", true, definitionsBare("normalizeLineEndings"), definitions("normalizeLineEndings")},
	{"how long are these files", false, linesBare, []string{`{"steps":[
{"forEach":"['LICENSE','README.md','package.json','dist/index.js','dist/server.js','dist/version.js']",
"fn":"get_file_info","args":{"path":"PROJECT/${$item}"},
"select":"int(split(split($result, 'lineCount: ')[1], '\\n')[0])"}],"lite":true}`}},
	// One file leads the agent to the next.
	{"parts of files, each after the last", false, each("read_file", `{"length":40,"offset":0,"path":"PROJECT/README.md"}`,
		`{"length":60,"offset":0,"path":"PROJECT/dist/index.js"}`, `{"length":80,"offset":0,"path":"PROJECT/dist/server.js"}`,
		`{"length":80,"offset":100,"path":"PROJECT/dist/search-manager.js"}`,
		`{"length":60,"offset":130,"path":"PROJECT/dist/tools/edit.js"}`),
		[]string{`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/README.md","offset":0,"length":40}}],"lite":true}`,
			`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/index.js","offset":0,"length":60}}],"lite":true}`,
			`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/server.js","offset":0,"length":80}}],"lite":true}`,
			`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/search-manager.js","offset":100,"length":80}}],"lite":true}`,
			`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/tools/edit.js","offset":130,"length":60}}],"lite":true}`}},
	{"parts of files, at once", false, each("read_file", `{"length":40,"path":"PROJECT/dist/config.js"}`,
		`{"length":40,"path":"PROJECT/dist/error-handlers.js"}`, `{"length":40,"path":"PROJECT/dist/command-manager.js"}`,
		`{"length":40,"path":"PROJECT/dist/track-installation.js"}`), []string{`{"steps":[
{"forEach":"['config','error-handlers','command-manager','track-installation']",
"fn":"read_file","args":{"path":"PROJECT/dist/${$item}.js","length":40}}],"lite":true}`}},
	{"a listing and a file, each alone", false, func(s *shell) any {
		return []any{s.ask("list_directory", `{"depth":2,"path":"PROJECT/dist/utils"}`), s.ask("read_file", `{"path":"PROJECT/dist/version.js"}`)}
	}, []string{`{"steps":[{"fn":"list_directory","args":{"path":"PROJECT/dist/utils","depth":2}}],"lite":true}`,
		`{"steps":[{"fn":"read_file","args":{"path":"PROJECT/dist/version.js"}}],"lite":true}`}},
	{"files by name", true, matchedBare("schemas"), findFiles("schemas")},
	{"more files by name", true, matchedBare("capture"), findFiles("capture")},
}

// chained does the query with its chains.
func (q *query) chained(s *shell) any {
	var all []any
	for _, chain := range q.chains {
		all = append(all, s.chain(chain))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// each returns a task that calls a tool several times, and gives all answers.
func each(tool string, args ...string) func(*shell) any {
	return func(s *shell) any {
		var all []any
		for _, a := range args {
			all = append(all, s.ask(tool, a))
		}
		return all
	}
}

// info asks for a number that is known of a file; -1: it is missing.
func (s *shell) info(path, name string) int {
	line := between(s.ask("get_file_info", fmt.Sprintf(`{"path":"PROJECT/%s"}`, path)), name+": ", "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return -1
	}
	return n
}

// between returns the part of a text between the first start and the next end.
func between(text, start, end string) string {
	_, after, _ := strings.Cut(text, start)
	part, _, _ := strings.Cut(after, end)
	return part
}

func projectBare(s *shell) any {
	root := s.ask("list_directory", `{"depth":1,"path":"PROJECT"}`)
	manifest := s.ask("read_file", `{"path":"PROJECT/package.json"}`)
	dist := s.ask("list_directory", `{"depth":1,"path":"PROJECT/dist"}`)
	_, text, _ := strings.Cut(manifest, "\n\n")
	var p map[string]any
	_ = json.Unmarshal([]byte(text), &p) // an error shows up in the comparison
	return map[string]any{"root": root, "name": p["name"], "version": p["version"], "bin": p["bin"],
		"scripts": scriptsIn(dist), "readme": s.info("README.md", "lineCount")}
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
	for _, line := range scriptsIn(s.ask("list_directory", `{"depth":1,"path":"PROJECT/dist/tools"}`)) {
		name := strings.TrimPrefix(line, "[FILE] ")
		all = append(all, fileSize{name, s.info("dist/tools/"+name, "size")})
	}
	slices.SortStableFunc(all, func(a, b fileSize) int { return cmp.Compare(b.Size, a.Size) })
	return all[:min(3, len(all))]
}

func linesBare(s *shell) any {
	var all []int
	for _, name := range []string{"LICENSE", "README.md", "package.json", "dist/index.js", "dist/server.js", "dist/version.js"} {
		all = append(all, s.info(name, "lineCount"))
	}
	return all
}

// hits starts a search, and returns its results when it has ended.
func (s *shell) hits(args string) string {
	id := fmt.Sprintf(`{"sessionId":%q}`, between(s.ask("start_search", args), "session: ", "\n"))
	for range 200 { // these calls are not counted: a search would have ended by the time of a model's next call
		text, err := s.Answer(s.ctx, "get_more_search_results", json.RawMessage(id))
		if err != nil || strings.Contains(text, "COMPLETED") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s.ask("get_more_search_results", id)
}

// definitionsBare returns a task that reads the definitions of functions.
func definitionsBare(names ...string) func(*shell) any {
	return func(s *shell) any {
		var all []any
		for _, name := range names {
			hits := s.hits(fmt.Sprintf(`{"contextLines":0,"filePattern":"*.js","literalSearch":true,"path":"PROJECT/dist",`+
				`"pattern":"function %s(","searchType":"content"}`, name))
			path, line, _ := strings.Cut(between(hits, "📄 ", " - "), ":")
			n, _ := strconv.Atoi(line)
			all = append(all, s.ask("read_file", fmt.Sprintf(`{"length":30,"offset":%d,"path":%q}`, n-1, path)))
		}
		return all
	}
}

// definitions returns the chain that reads the definitions of functions.
func definitions(names ...string) []string {
	return []string{`{"steps":[{"forEach":"['` + strings.Join(names, `','`) + `']","args":{"name":"$item"},"chain":{"steps":[
{"fn":"start_search","args":{"path":"PROJECT/dist","pattern":"function ${$input.name}(","searchType":"content",
"filePattern":"*.js","contextLines":0,"literalSearch":true},
"select":"split(split($result, 'session: ')[1], '\\n')[0]"},
{"fn":"get_more_search_results","args":{"sessionId":"$0"},"repeat":{"until":"$result contains 'COMPLETED'","max":200,"delayMs":20},
"select":"split(split(split($result, '📄 ')[1], ' - ')[0], ':')"},
{"expr":"int($1[1]) - 1"},
{"fn":"read_file","args":{"path":"$1[0]","offset":"$2","length":30}}]}}],"lite":true}`}
}

// matchedBare returns a task that finds files by part of their names.
func matchedBare(name string) func(*shell) any {
	return func(s *shell) any {
		hits := s.hits(fmt.Sprintf(`{"path":"PROJECT","pattern":%q,"searchType":"files"}`, name))
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
func findFiles(name string) []string {
	return []string{`{"steps":[{"fn":"start_search","args":{"path":"PROJECT","pattern":"` + name + `","searchType":"files"},
"select":"split(split($result, 'session: ')[1], '\\n')[0]"},
{"fn":"get_more_search_results","args":{"sessionId":"$0"},"repeat":{"until":"$result contains 'COMPLETED'","max":200,"delayMs":20}},
{"expr":"sort(map(split($1, '📁 ')[1:], split(#, '\\n')[0]))"}],"lite":true}`}
}
