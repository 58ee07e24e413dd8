//go:build unix

package cli

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
)

// kills is how often a test kills what it is about: least, most in CI, or as ONECALL_TEST_KILLS says.
func kills(t *testing.T, least, most int) int {
	t.Helper()
	if said := os.Getenv("ONECALL_TEST_KILLS"); said != "" {
		n, err := strconv.Atoi(said)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if os.Getenv("ONECALL_TEST_CI") != "" {
		return most
	}
	return least
}

// site is where runs provision: the memory and filesystem servers from npm, and a service with an OpenAPI document. Each of some clients has
// a memory of its own, as that server forgets what two calls at once write.
type site struct {
	folder, config string
	shop           *orders
}

const ordersDocument = `{"openapi":"3.0.3","info":{"title":"Shop","version":"1"},"paths":{"/orders":{"post":{"operationId":"createOrder",
"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"}}}}}},
"responses":{"200":{"description":"taken","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

func newSite(t *testing.T, clients int, journal map[string]string) *site {
	t.Helper()
	packages, folder := npmPackages(t), t.TempDir()
	s := &site{folder: folder, shop: &orders{random: rand.New(rand.NewPCG(1, 8)), taken: map[string]int{}}}
	service := httptest.NewServer(s.shop)
	t.Cleanup(service.Close)
	write(t, folder, "shop.json", ordersDocument)
	files := npmServers(packages, folder)["files"]
	servers := map[string]server{"files": files}
	for c := range clients {
		// What reaches the server is logged on the way.
		script := filepath.Join(packages, "@modelcontextprotocol", "server-memory", "dist", "index.js")
		line := fmt.Sprintf("tee -a %s | exec node %s", s.memory(c, "log"), script)
		servers[fmt.Sprint("memory", c)] = server{"sh", []string{"-c", line}, map[string]string{"MEMORY_FILE_PATH": s.memory(c, "jsonl")}}
	}
	settings := map[string]any{"access": map[string]string{"http": "read_write"}, "mcpServers": servers,
		"openapi": map[string]any{"shop": map[string]string{"spec": "shop.json", "baseUrl": service.URL}}}
	if journal != nil {
		settings["journal"] = journal
	}
	s.config = writeJSON(t, folder, "onecall.json", settings)
	return s
}

func (s *site) memory(client int, ending string) string {
	return filepath.Join(s.folder, fmt.Sprintf("memory%d.%s", client, ending))
}

// effects grows with each call that reaches a memory or the shop.
func (s *site) effects(t *testing.T, clients int) (n int64) {
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

// provision is one run of a client: what it sends, and what it has said of calls of which nobody knew.
type provision struct {
	*site
	client  int
	name    string // of all that it makes
	denied  map[string]int
	answers int
}

const each = 4 // elements of a step

func (s *site) provision(t *testing.T, client int, name string) *provision {
	t.Helper()
	write(t, s.folder, name+".txt", "END\n")
	return &provision{site: s, client: client, name: name, denied: map[string]int{}}
}

func (p *provision) chain() string {
	memory := fmt.Sprint("memory", p.client)
	return fmt.Sprintf(`{"key":%[1]q,"steps":[
{"fn":"%[2]s.create_entities","forEach":"1..%[3]d","args":{"entities":[{"name":"%[1]s-e${$item}","entityType":"host","observations":[]}]}},
{"fn":"files.edit_file","forEach":"1..%[3]d","args":{"path":%[4]q,"edits":[{"oldText":"END","newText":"line ${$item}\nEND"}]}},
{"fn":"shop.order.create","forEach":"1..%[3]d","concurrency":2,"args":{"sku":"%[1]s-s${$item}"}},
{"chain":{"steps":[{"fn":"%[2]s.add_observations","args":{"observations":[{"entityName":"%[1]s-e1","contents":["%[1]s-seen"]}]}},
 {"fn":"shop.order.create","args":{"sku":"%[1]s-inner"}}]}}],"return":"done"}`, p.name, memory, each, filepath.Join(p.folder, p.name+".txt"))
}

// places are those of all calls.
func (p *provision) places() (list []string) {
	for step := range 3 {
		for i := range each {
			list = append(list, fmt.Sprintf("%d[%d]", step, i))
		}
	}
	return append(list, "3.0", "3.1")
}

// done is how often the call at a place was applied, and how often it arrived, as the servers know.
func (p *provision) done(t *testing.T, place string) (applied, arrived int) {
	t.Helper()
	var step, i int
	switch _, err := fmt.Sscanf(place, "%d[%d]", &step, &i); {
	case place == "3.0":
		return p.remembered(t, "add_observations", p.name+"-seen")
	case place == "3.1":
		n := p.shop.has(p.name + "-inner")
		return n, n
	case err != nil:
		t.Fatalf("a place %q", place)
	case step == 0:
		return p.remembered(t, "create_entities", fmt.Sprintf("%s-e%d", p.name, i+1))
	case step == 1:
		n := strings.Count(read(t, filepath.Join(p.folder, p.name+".txt")), fmt.Sprintf("line %d\n", i+1))
		return n, n
	}
	n := p.shop.has(fmt.Sprintf("%s-s%d", p.name, i+1))
	return n, n
}

func (p *provision) remembered(t *testing.T, tool, text string) (applied, arrived int) {
	text = `"` + text + `"`
	for line := range strings.Lines(read(t, p.memory(p.client, "log"))) {
		if strings.Contains(line, `"`+tool+`"`) && strings.Contains(line, text) {
			arrived++
		}
	}
	return min(1, strings.Count(read(t, p.memory(p.client, "jsonl")), text)), arrived
}

// read is a file's text; one that is not there yet is empty.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// check holds that what an answer tells of writes is so.
func (p *provision) check(t *testing.T, answer gjson.Result) {
	t.Helper()
	p.answers++
	for _, e := range answer.Get("writes").Array() {
		for _, place := range placesOf(e) {
			if place == "3" { // it has not begun
				continue
			}
			applied, _ := p.done(t, place)
			switch outcome := e.Get("outcome").Str; {
			case outcome == "applied" && applied == 0, (outcome == "not_sent" || outcome == "failed") && applied > 0:
				t.Errorf("%s: %s is told to be %s, and was applied %d times: %s", p.name, place, outcome, applied, answer.Raw)
			}
		}
	}
}

// placesOf are the places that an entry of writes names.
func placesOf(e gjson.Result) (list []string) {
	if in := e.Get("in").Str; in != "" {
		return []string{in}
	}
	step := e.Get("step").Raw
	if !e.Get("elements").Exists() {
		return []string{step}
	}
	for part := range strings.SplitSeq(e.Get("elements").Str, ",") {
		from, to, ok := strings.Cut(part, "-")
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

// assume says of the calls that an answer has doubts about what the servers know, as a chain's field does.
func (p *provision) assume(t *testing.T, answer gjson.Result) map[string]string {
	t.Helper()
	said := map[string]string{}
	for _, place := range answer.Get("error.available").Array() {
		said[place.Str] = "applied"
		if applied, _ := p.done(t, place.Str); applied == 0 {
			said[place.Str] = "not_sent"
			p.denied[place.Str]++
		}
	}
	return said
}

// finished holds that all was done, and nothing again that had been.
func (p *provision) finished(t *testing.T) {
	t.Helper()
	for _, place := range p.places() {
		if applied, arrived := p.done(t, place); applied != 1 || arrived > 1+p.denied[place] {
			t.Errorf("%s: %s was applied %d times, arrived %d times, and was said %d times not to have been sent",
				p.name, place, applied, arrived, p.denied[place])
		}
	}
}

// family has a command tell when it and all processes that it has started have ended: by a pipe that they inherit.
func family(t *testing.T, cmd *exec.Cmd) (start func(), gone func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	gone = func() {
		_ = r.SetReadDeadline(time.Now().Add(tooLong))
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("processes of one that was killed do not end: %v", err)
		}
	}
	return func() { w.Close() }, gone
}

func assumption(t *testing.T, said map[string]string) string {
	t.Helper()
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
