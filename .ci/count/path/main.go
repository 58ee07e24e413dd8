// Command path counts the functions that run for one chain of one step, sent over HTTP by a client without a session: go -C .ci/count run
// ./path ROOT. It runs the server twice, with two calls and with six: functions that ran more often in the second run are on the path.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const module = "github.com/onecall-mcp/onecall"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: path ROOT")
	}
	root, err := filepath.Abs(os.Args[1])
	must(err)
	work, err := os.MkdirTemp("", "path")
	must(err)
	defer func() { _ = os.RemoveAll(work) }()
	binary := filepath.Join(work, "onecall")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"/...", "-o", binary, "./cmd/onecall")
	build.Dir, build.Stderr = root, os.Stderr
	must(build.Run())

	few, many := counts(work, binary, 2), counts(work, binary, 6)
	byPackage, total := map[string][]string{}, 0
	for block, n := range many {
		if n <= few[block] {
			continue
		}
		pkg, name := functionAt(root, block)
		if !slices.Contains(byPackage[pkg], name) {
			byPackage[pkg] = append(byPackage[pkg], name)
			total++
		}
	}
	for _, pkg := range slices.SortedFunc(maps.Keys(byPackage), func(a, b string) int { return len(byPackage[b]) - len(byPackage[a]) }) {
		slices.Sort(byPackage[pkg])
		fmt.Printf("%4d %s: %s\n", len(byPackage[pkg]), pkg, strings.Join(byPackage[pkg], " "))
	}
	fmt.Printf("%4d functions\n", total)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// block is the start of a block of statements that coverage counts.
type block struct {
	file         string
	line, column int
}

// counts runs a server for some calls, and returns how often each block ran.
func counts(work, binary string, calls int) map[block]int {
	folder := filepath.Join(work, strconv.Itoa(calls))
	must(os.Mkdir(folder, 0o700))
	server := exec.Command(binary, "serve", "--http", "127.0.0.1:0")
	server.Dir = folder
	server.Env = append(os.Environ(), "GOCOVERDIR="+folder, "HOME="+folder, "XDG_CONFIG_HOME="+folder)
	stderr, err := server.StderrPipe()
	must(err)
	must(server.Start())
	lines := bufio.NewReader(stderr)
	address := ""
	for address == "" {
		line, err := lines.ReadString('\n')
		must(err)
		address = regexp.MustCompile(`http://[0-9.:]+\S*`).FindString(line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for range calls {
		call(address)
	}
	must(server.Process.Signal(syscall.SIGTERM))
	_ = server.Wait()

	profile := filepath.Join(folder, "text")
	out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+profile).CombinedOutput()
	if err != nil {
		log.Fatalf("%v: %s", err, out)
	}
	return readProfile(profile)
}

// call makes one call, as a client of MCP 2026-07-28 does.
func call(address string) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain",` +
		`"arguments":{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}]},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"path","version":"1"}}}}`
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	must(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"chain"}}
	response, err := http.DefaultClient.Do(request)
	must(err)
	answer, err := io.ReadAll(response.Body)
	must(err)
	must(response.Body.Close())
	if !bytes.Contains(answer, []byte(`\"result\":2`)) {
		log.Fatalf("got %s, want a chain whose result is 2", answer)
	}
}

// readProfile reads a coverage profile: file:line.column,line.column statements count.
func readProfile(path string) map[block]int {
	text, err := os.ReadFile(path)
	must(err)
	counts := map[block]int{}
	for _, m := range regexp.MustCompile(`(?m)^`+module+`/(\S+):(\d+)\.(\d+),\S+ \d+ (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		counts[block{m[1], atoi(m[2]), atoi(m[3])}] += atoi(m[4])
	}
	return counts
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

var parsed = map[string]*ast.File{}

var files = token.NewFileSet()

// functionAt returns the declared function that contains a block. A function literal belongs to the function around it; one outside of
// functions, such as the value of a variable, is named after its file and line.
func functionAt(root string, b block) (pkg, name string) {
	file := parsed[b.file]
	if file == nil {
		var err error
		file, err = parser.ParseFile(files, filepath.Join(root, b.file), nil, 0)
		must(err)
		parsed[b.file] = file
	}
	for _, declaration := range file.Decls {
		first, last := files.Position(declaration.Pos()), files.Position(declaration.End())
		if f, ok := declaration.(*ast.FuncDecl); ok && first.Line <= b.line && b.line <= last.Line {
			name = f.Name.Name
			if f.Recv != nil {
				name = strings.Trim(regexp.MustCompile(`^\*?(\w+).*`).ReplaceAllString(string(receiver(root, b.file, f)), "$1"), "*") + "." + name
			}
			return filepath.Dir(b.file), name
		}
	}
	return filepath.Dir(b.file), fmt.Sprintf("literal@%s:%d", filepath.Base(b.file), b.line)
}

// receiver returns the text of a method's receiver type.
func receiver(root, file string, f *ast.FuncDecl) []byte {
	text, err := os.ReadFile(filepath.Join(root, file))
	must(err)
	t := f.Recv.List[0].Type
	return text[files.Position(t.Pos()).Offset:files.Position(t.End()).Offset]
}
