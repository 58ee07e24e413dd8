//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// killCount returns how many times a test kills something: the value of ONECALL_TEST_KILLS, inCI in CI, otherwise minimum.
func killCount(t *testing.T, minimum, inCI int) int {
	t.Helper()
	if setting := os.Getenv("ONECALL_TEST_KILLS"); setting != "" {
		n, err := strconv.Atoi(setting)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if os.Getenv("ONECALL_TEST_CI") != "" {
		return inCI
	}
	return minimum
}

// provisionSite has the servers that runs write to: the memory and filesystem servers from npm, and a service with an OpenAPI document.
// Each client has its own memory server, because that server loses writes that arrive together.
type provisionSite struct {
	folder, config string
	shop           *orderService
}

const ordersDocument = `{"openapi":"3.0.3","info":{"title":"Shop","version":"1"},"paths":{"/orders":{"post":{"operationId":"createOrder",
"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"}}}}}},
"responses":{"200":{"description":"taken","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

func newSite(t *testing.T, clients int, journal map[string]string) *provisionSite {
	t.Helper()
	packages, folder := npmPackages(t), t.TempDir()
	s := &provisionSite{folder: folder, shop: &orderService{random: rand.New(rand.NewPCG(1, 8)), taken: map[string]int{}}}
	service := httptest.NewServer(s.shop)
	t.Cleanup(service.Close)
	clitest.Write(t, folder, "shop.json", ordersDocument)
	files := npmServers(packages, folder)["files"]
	servers := map[string]server{"files": files}
	for c := range clients {
		// tee logs what reaches the server.
		script := filepath.Join(packages, "@modelcontextprotocol", "server-memory", "dist", "index.js")
		line := fmt.Sprintf("tee -a %s | exec node %s", s.memory(c, "log"), script)
		servers[fmt.Sprint("memory", c)] = server{"sh", []string{"-c", line}, map[string]string{"MEMORY_FILE_PATH": s.memory(c, "jsonl")}, files.StartTimeoutMS}
	}
	settings := map[string]any{"access": map[string]string{"http": "read_write"}, "mcpServers": servers,
		"openapi": map[string]any{"shop": map[string]string{"spec": "shop.json", "baseUrl": service.URL}}}
	if journal != nil {
		settings["journal"] = journal
	}
	s.config = writeJSON(t, folder, "onecall.json", settings)
	return s
}

func (s *provisionSite) memory(client int, ending string) string {
	return filepath.Join(s.folder, fmt.Sprintf("memory%d.%s", client, ending))
}

// effects returns a count that grows with each call that reaches a memory server or the shop.
func (s *provisionSite) effects(t *testing.T, clients int) (n int64) {
	s.shop.mu.Lock()
	defer s.shop.mu.Unlock()
	for _, count := range s.shop.taken {
		n += int64(count)
	}
	for c := range clients {
		n += int64(strings.Count(read(t, s.memory(c, "log")), `"tools/call"`))
	}
	return n
}

// provisionRun is one run of a client, with what the client assumed about calls with an unknown outcome.
type provisionRun struct {
	*provisionSite
	client        int
	name          string         // prefix of everything that it creates
	assumedUnsent map[string]int // number of times that a call was assumed not to have been sent, by position
	answers       int
}

const elementsPerStep = 4

func (s *provisionSite) provision(t *testing.T, client int, name string) *provisionRun {
	t.Helper()
	clitest.Write(t, s.folder, name+".txt", "END\n")
	return &provisionRun{provisionSite: s, client: client, name: name, assumedUnsent: map[string]int{}}
}

func (p *provisionRun) chain() string {
	memory := fmt.Sprint("memory", p.client)
	return fmt.Sprintf(`{"key":%[1]q,"steps":[
{"fn":"%[2]s.create_entities","forEach":"1..%[3]d","args":{"entities":[{"name":"%[1]s-e${$item}","entityType":"host","observations":[]}]}},
{"fn":"files.edit_file","forEach":"1..%[3]d","args":{"path":%[4]q,"edits":[{"oldText":"END","newText":"line ${$item}\nEND"}]}},
{"fn":"shop.order.create","forEach":"1..%[3]d","concurrency":2,"args":{"sku":"%[1]s-s${$item}"}},
{"chain":{"steps":[{"fn":"%[2]s.add_observations","args":{"observations":[{"entityName":"%[1]s-e1","contents":["%[1]s-seen"]}]}},
 {"fn":"shop.order.create","args":{"sku":"%[1]s-inner"}}]}}],"return":"done"}`,
		p.name, memory, elementsPerStep, filepath.Join(p.folder, p.name+".txt"))
}

// callPositions returns the positions of all calls.
func (p *provisionRun) callPositions() (list []string) {
	for step := range 3 {
		for i := range elementsPerStep {
			list = append(list, fmt.Sprintf("%d[%d]", step, i))
		}
	}
	return append(list, "3.0", "3.1")
}

// applied returns how often the call at a position was applied, and how often it arrived, according to the servers.
func (p *provisionRun) applied(t *testing.T, position string) (applied, arrived int) {
	t.Helper()
	var step, i int
	switch _, err := fmt.Sscanf(position, "%d[%d]", &step, &i); {
	case position == "3.0":
		return p.memoryCalls(t, "add_observations", p.name+"-seen")
	case position == "3.1":
		n := p.shop.ordersOf(p.name + "-inner")
		return n, n
	case err != nil:
		t.Fatalf("unknown position %q", position)
	case step == 0:
		return p.memoryCalls(t, "create_entities", fmt.Sprintf("%s-e%d", p.name, i+1))
	case step == 1:
		n := strings.Count(read(t, filepath.Join(p.folder, p.name+".txt")), fmt.Sprintf("line %d\n", i+1))
		return n, n
	}
	n := p.shop.ordersOf(fmt.Sprintf("%s-s%d", p.name, i+1))
	return n, n
}

// memoryCalls is applied for a call of the memory server.
func (p *provisionRun) memoryCalls(t *testing.T, tool, text string) (applied, arrived int) {
	text = `"` + text + `"`
	for line := range strings.Lines(read(t, p.memory(p.client, "log"))) {
		if strings.Contains(line, `"`+tool+`"`) && strings.Contains(line, text) {
			arrived++
		}
	}
	return min(1, strings.Count(read(t, p.memory(p.client, "jsonl")), text)), arrived
}

// read returns the text of a file, "" if it does not exist.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// check checks the outcomes of writes in an answer.
func (p *provisionRun) check(t *testing.T, answer gjson.Result) {
	t.Helper()
	p.answers++
	for _, e := range answer.Get("writes").Array() {
		for _, position := range positionsOf(e) {
			if position == "3" { // it has not started
				continue
			}
			applied, _ := p.applied(t, position)
			switch status := e.Get("outcome").Str; {
			case status == "applied" && applied == 0, (status == "not_sent" || status == "failed") && applied > 0:
				t.Errorf("%s: %s is reported as %s, but was applied %d times: %s", p.name, position, status, applied, answer.Raw)
			}
		}
	}
}

// positionsOf returns the positions that an entry of writes names.
func positionsOf(e gjson.Result) (list []string) {
	if in := e.Get("in").Str; in != "" {
		return []string{in}
	}
	step := e.Get("step").Raw
	if !e.Get("elements").Exists() {
		return []string{step}
	}
	for segment := range strings.SplitSeq(e.Get("elements").Str, ",") {
		from, to, ok := strings.Cut(segment, "-")
		if !ok {
			to = from
		}
		first, _ := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		for i := first; i <= last; i++ {
			list = append(list, fmt.Sprintf("%s[%d]", step, i))
		}
	}
	return list
}

// assume returns the field assume for the calls whose outcome an answer does not know, according to the servers.
func (p *provisionRun) assume(t *testing.T, answer gjson.Result) map[string]string {
	t.Helper()
	assumed := map[string]string{}
	for _, position := range answer.Get("error.available").Array() {
		assumed[position.Str] = "applied"
		if applied, _ := p.applied(t, position.Str); applied == 0 {
			assumed[position.Str] = "not_sent"
			p.assumedUnsent[position.Str]++
		}
	}
	return assumed
}

// checkFinished checks that each call was applied once.
func (p *provisionRun) checkFinished(t *testing.T) {
	t.Helper()
	for _, position := range p.callPositions() {
		if applied, arrived := p.applied(t, position); applied != 1 || arrived > 1+p.assumedUnsent[position] {
			t.Errorf("%s: %s was applied %d times, want 1, arrived %d times, and was assumed unsent %d times",
				p.name, position, applied, arrived, p.assumedUnsent[position])
		}
	}
}

// trackProcessTree lets a test wait until a command and all processes that it started have ended. They inherit a pipe, which is closed when
// the last of them has ended. Call started when the command has started.
func trackProcessTree(t *testing.T, cmd *exec.Cmd) (started func(), waitEnded func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	waitEnded = func() {
		_ = r.SetReadDeadline(time.Now().Add(clitest.TooLong))
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("waiting for the processes of a command: %v", err)
		}
	}
	return func() { w.Close() }, waitEnded
}

func assumeJSON(t *testing.T, assumed map[string]string) string {
	t.Helper()
	text, err := json.Marshal(assumed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
