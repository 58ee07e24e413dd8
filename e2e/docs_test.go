//go:build e2e && unix

package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// TestDocuments runs the examples of the README and the documents. In each document, a block under a line that is a name in backticks,
//
//	`NAME`
//
//	```json       or yaml, jsonl, go, text
//
// is a file of that name, where ~ is the home folder, and in a block
//
//	```console
//
// each line that begins with `$ ` is a command. Commands run in a folder of the document, which holds the files so far. The lines below a
// command are its expected output, stdout before stderr; `…` matches any text, and `# exit N` is the exit status. A word after console, as
// in ```console npm,curl, lists what the block needs: npm means the packages of testdata/npm, postgres a PostgreSQL server of the
// document's own in place of documentDatabase, any other word a program, on the PATH or in ONECALL_TEST_BIN. If one is missing, the rest of the document is skipped. Documents call the service inventory, at $INVENTORY_URL, and
// those of servicesOf. The first sh block of the README holds commands for the repository itself, which .ci/run runs. Other sh blocks show
// commands that need a reader's own machine.
//
// A command may leave a server running (COMMAND & echo $! > name.pid), which is killed at the end of the document. In such a document the
// ports 8080, 8081, 9090, 9091 and 7233 are replaced by free ones.
func TestDocuments(t *testing.T) {
	t.Parallel()
	documents := []string{"../README.md"}
	for _, folder := range []string{"docs", "docs/clients", "docs/cookbook"} {
		pages, err := filepath.Glob("../" + folder + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, pages...)
	}
	commands := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		blocks := blockPattern.FindAllStringSubmatch(string(text), -1)
		commands += strings.Count(string(text), "\n$ onecall ")
		t.Run(strings.TrimPrefix(filepath.ToSlash(document), "../docs/"), func(t *testing.T) {
			t.Parallel()
			runDocument(t, newDocumentRun(t, string(text)), blocks)
		})
	}
	if commands < 20 {
		t.Errorf("the documents show %d onecall commands, want at least 20", commands)
	}
}

// TestShellBlocks checks that the README's sh block has the commands that .ci/readme-commands runs.
func TestShellBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the README has no sh block")
	}
	for _, want := range []string{"go run ./cmd/onecall run testdata/chains/", "go test ./..."} {
		if !strings.Contains(block[1], want) {
			t.Errorf("the first sh block lacks %q", want)
		}
	}
}

// blockPattern matches a block. Its groups are the file's name, the block's kind, the word after the kind, and the text. The word, which
// GitHub does not show, is what a console needs, or the name of another file.
var blockPattern = regexp.MustCompile("(?sm)(?:^`([^`\n]+)`\n\n)?^```(json|yaml|text|jsonl|go|console)(?: (\\S+))?\n(.*?)^```$")

func runDocument(t *testing.T, d *documentRun, blocks [][]string) {
	for _, block := range blocks {
		name, kind, word, body := block[1], block[2], block[3], block[4]
		switch name = cmp.Or(name, word); {
		case kind == "console":
			d.skipUnless(t, word)
			runConsole(t, d, body)
		case name != "":
			file := filepath.Join(d.folder, strings.Replace(name, "~", ".home", 1))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(d.withAddresses(body)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// installPackages links the packages of testdata/npm into a folder, where npx finds them.
func installPackages(t *testing.T, folder string) {
	t.Helper()
	symlink := filepath.Join(folder, "node_modules")
	if err := os.Symlink(npmPackages(t), symlink); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// inventory starts the service that documents call and returns its URL. It has every item except sofa, and takes orders.
func inventory(t *testing.T) string {
	mux := http.NewServeMux()
	respond := func(w http.ResponseWriter, status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
	mux.HandleFunc("GET /api/v2/items/{sku}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("sku") == "sofa" {
			respond(w, http.StatusNotFound, `{"message":"no such item"}`)
			return
		}
		if r.URL.Query().Get("fields") == "left" {
			respond(w, http.StatusOK, `{"left":3}`)
			return
		}
		respond(w, http.StatusOK, fmt.Sprintf(`{"sku":%q,"left":3}`, r.PathValue("sku")))
	})
	authorized := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer "+inventoryToken {
			respond(w, http.StatusUnauthorized, `{"message":"who are you?"}`)
			return false
		}
		return true
	}
	mux.HandleFunc("DELETE /api/v2/items/{sku}", func(w http.ResponseWriter, r *http.Request) {
		if authorized(w, r) {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	var orders atomic.Int64
	mux.HandleFunc("POST /api/v2/orders", func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Item  string
			Count int
			Note  string
		}
		if !authorized(w, r) {
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			respond(w, http.StatusBadRequest, `{"message":"no order"}`)
			return
		}
		number := orders.Add(1)
		respond(w, http.StatusCreated, fmt.Sprintf(`{"order":%d,"item":%q,"count":%d,"note":%q}`, number, order.Item, order.Count, order.Note))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const inventoryToken = "3e1f-inventory"

func runConsole(t *testing.T, d *documentRun, body string) {
	t.Helper()
	var command string
	var want []string
	flush := func() {
		if command != "" {
			runCommand(t, d, command, strings.Join(want, "\n"))
		}
		want = nil
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if next, ok := strings.CutPrefix(line, "$ "); ok {
			flush()
			command = next
			continue
		}
		want = append(want, line)
	}
	flush()
}

// tokenInOutput matches a continuation token. TOKEN in a command stands for the last that was printed.
var tokenInOutput = regexp.MustCompile(`oc1_b?\d+`)

// runInOutput matches the id of a run. RUN in a command stands for the last that was printed.
var runInOutput, runInCommand = regexp.MustCompile(`run_[a-z2-7]{26}`), regexp.MustCompile(`\bRUN\b`)

// withRecording makes a command record the calls of its chain in the folder ONECALL_TEST_RECORD. The comparison in bench replays these
// recordings.
func withRecording(command string) string {
	folder := os.Getenv("ONECALL_TEST_RECORD")
	if folder == "" || strings.Contains(command, "--replay") || strings.Contains(command, "--record") {
		return command
	}
	return chainInCommand.ReplaceAllString(command, "onecall run --record "+filepath.Join(folder, "$2.jsonl")+"$1$2.chain.yaml")
}

var chainInCommand = regexp.MustCompile(`^onecall run( .*?)(\w+)\.chain\.yaml`)

// betweenColumns matches the blanks between columns. Their number depends on the values, such as times.
var betweenColumns = regexp.MustCompile(`(\S)  +`)

func runCommand(t *testing.T, d *documentRun, command, want string) {
	t.Helper()
	tokenFile := filepath.Join(d.folder, ".token")
	if token, err := os.ReadFile(tokenFile); err == nil {
		command = strings.ReplaceAll(command, "TOKEN", string(token))
	}
	runFile := filepath.Join(d.folder, ".run")
	if run, err := os.ReadFile(runFile); err == nil {
		command = runInCommand.ReplaceAllString(command, string(run))
	}
	got := d.run(t, withRecording(command))
	if run := runInOutput.FindString(got); run != "" {
		if err := os.WriteFile(runFile, []byte(run), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if token := tokenInOutput.FindString(got); token != "" {
		if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(want, "\n")), "…", "(?s:.*?)")
	pattern = betweenColumns.ReplaceAllString(pattern, "$1  +")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		t.Errorf("$ %s\nprinted\n%s\nwant, as in the document\n%s", command, got, want)
	}
}

// TestTokenDigitsAreNotPorts checks that the ports of a document that runs servers are replaced, but not equal digits in a token.
func TestTokenDigitsAreNotPorts(t *testing.T) {
	t.Parallel()
	d := newDocumentRun(t, "$ onecall serve --http :8080 --metrics :9090 & echo $! > a.pid")
	token := "oc1_5808080819090" + d.ports["8080"] + "90917233" + d.ports["9090"]
	runCommand(t, d, "echo "+token, token)
	runCommand(t, d, "printf %s TOKEN | sed 's/./&-/g'", strings.Join(strings.Split(token, ""), "-")+"-")
	runCommand(t, d, "echo at :8080/ 8080 a9090b | tr -d :", "at "+d.ports["8080"]+"/ "+d.ports["8080"]+" a9090b")
	runCommand(t, d, "echo http://localhost:8080/ 127.0.0.1:9090", "http://localhost:8080/ 127.0.0.1:9090")
}
