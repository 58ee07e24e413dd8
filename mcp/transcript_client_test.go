package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// client sends the messages of a transcript and returns the responses.
type client interface {
	send(t *testing.T, what string, headers http.Header) []string
}

// connect opens the client that the name of a section describes.
func (s *transcriptServer) connect(t *testing.T, words []string) client {
	t.Helper()
	renamed := map[string]string{}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		renamed[name] = value
	}
	var can []string
	switch forms := slices.Contains(words, "elicits"); {
	case slices.Contains(words, "pages") && forms:
		can = append(can, `"elicitation":{"form":{},"url":{}}`)
	case slices.Contains(words, "pages"):
		can = append(can, `"elicitation":{"url":{}}`)
	case forms:
		can = append(can, `"elicitation":{}`)
	}
	if slices.Contains(words, "apps") {
		can = append(can, `"extensions":{"`+metaPrefix+`ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`)
	}
	if slices.Contains(words, "tasks") {
		can = append(can, `"extensions":{"`+metaPrefix+`tasks":{}}`)
	}
	capabilities := "{" + strings.Join(can, ",") + "}"
	if words[0] == "stdio" {
		c := s.overStdio(t, words[1])
		c.capabilities = capabilities
		return c
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &httpClient{url: s.serveHTTP(t), version: words[1], capabilities: capabilities, token: renamed["token"], refusal: &s.refusal,
		http: &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	if surface := renamed["surface"]; surface != "" {
		c.url += "?surface=" + surface
	}
	return c
}

// serveHTTP serves all clients at one loopback address.
func (s *transcriptServer) serveHTTP(t *testing.T) string {
	t.Helper()
	s.once.Do(func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.server.ServeHTTP(ctx, l, s.access) }()
		s.test.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				s.test.Errorf("ServeHTTP: %v", err)
			}
		})
		s.url = "http://" + l.Addr().String() + transport.Path
	})
	return s.url
}

// message returns a message of the protocol, as a client of a version sends it.
func message(version, capabilities, method, params string, id int) string {
	if version >= protocol.Stateless {
		meta := `"_meta":{"` + metaPrefix + `protocolVersion":"` + version + `","` + metaPrefix + `clientCapabilities":` + capabilities + `,"` +
			metaPrefix + `clientInfo":{"name":"t","version":"1"}}}`
		if inner := strings.TrimSuffix(params, "}"); inner == "{" || inner == "" {
			params = "{" + meta
		} else {
			params = inner + "," + meta
		}
	}
	text := `{"jsonrpc":"2.0",`
	if !strings.HasPrefix(method, "notifications/") {
		text += `"id":` + strconv.Itoa(id) + `,`
	}
	text += `"method":"` + method + `"`
	if params != "" {
		text += `,"params":` + params
	}
	return text + "}"
}

const metaPrefix = "io.modelcontextprotocol/"

// httpClient is a client over HTTP. It keeps its session as clients do.
type httpClient struct {
	url, version, capabilities, token, session string
	http                                       *http.Client
	requests                                   int
	refusal                                    *atomic.Pointer[string]
}

func (c *httpClient) send(t *testing.T, what string, headers http.Header) []string {
	t.Helper()
	method, rest, _ := strings.Cut(what, " ")
	verb, body, url := http.MethodPost, rest, c.url
	if strings.HasPrefix(rest, "/") {
		rest, body, _ = strings.Cut(rest, " ")
		url = strings.TrimSuffix(c.url, transport.Path) + rest
	}
	header := http.Header{"Accept": {"application/json, text/event-stream"}}
	switch method {
	case "GET", "DELETE":
		verb = method
	case "POST":
	default:
		c.requests++
		body = message(c.version, c.capabilities, method, rest, c.requests)
		if c.version >= protocol.Stateless {
			header.Set("Mcp-Method", method)
			if name := gjson.Get(rest, "name").Str + gjson.Get(rest, "uri").Str + gjson.Get(rest, "taskId").Str; name != "" {
				header.Set("Mcp-Name", name)
			}
		}
	}
	if verb == http.MethodPost {
		header.Set("Content-Type", "application/json")
	}
	if method != "initialize" {
		header.Set("Mcp-Protocol-Version", c.version)
	}
	if c.session != "" && method != "initialize" {
		header.Set("Mcp-Session-Id", c.session)
	}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	r, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range headers {
		if header[name] = values; values[0] == "" {
			header.Del(name)
		}
	}
	if r.Header = header; header.Get("Host") != "" {
		r.Host = header.Get("Host")
	}
	response, err := c.http.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer response.Body.Close()
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return c.read(t, response)
}

// read returns the status with the headers that matter, and the messages.
func (c *httpClient) read(t *testing.T, response *http.Response) []string {
	t.Helper()
	status := strconv.Itoa(response.StatusCode)
	for _, name := range []string{"Mcp-Session-Id", "Www-Authenticate", "Retry-After", "Allow", "Location"} {
		if value := response.Header.Get(name); value != "" {
			status += " " + name + ": " + value
		}
	}
	if why := c.refusal.Swap(nil); why != nil {
		status += " (refused: " + *why + ")"
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{status}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if data, event := strings.CutPrefix(line, "data: "); event {
			line = data
		} else if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// stdioClient is a client over stdio.
type stdioClient struct {
	version, capabilities string
	in                    io.Writer
	out                   *bufio.Reader
	requests              int
}

func (s *transcriptServer) overStdio(t *testing.T, version string) *stdioClient {
	t.Helper()
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.server.ServeStdio(context.Background(), fromClient, toClient, s.user)
		toClient.Close()
	}()
	t.Cleanup(func() {
		in.Close()
		go io.Copy(io.Discard, out)
		if err := <-ended; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	return &stdioClient{version: version, in: in, out: bufio.NewReader(out)}
}

// send writes one line, and reads up to the answer to the request. After a notification it reads nothing.
func (c *stdioClient) send(t *testing.T, what string, _ http.Header) []string {
	t.Helper()
	method, line, _ := strings.Cut(what, " ")
	if method != "POST" {
		c.requests++
		line = message(c.version, c.capabilities, method, line, c.requests)
	}
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(method, "notifications/") {
		return nil
	}
	var lines []string
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		lines = append(lines, strings.TrimSpace(line))
		if gjson.Get(line, "id").Exists() && !gjson.Get(line, "method").Exists() {
			return lines
		}
	}
}

var (
	taskKeys    = regexp.MustCompile(`(?:ocp_)?[\w-]{22}(":\{"method":"elicitation/create")`)
	namedKeys   = regexp.MustCompile(`inputResponses\.[\w-]{22}`)
	tokens      = regexp.MustCompile(`oc1_[\w-]+`)
	sessions    = regexp.MustCompile(`Mcp-Session-Id: \S+`)
	states      = regexp.MustCompile(`ocq_run_[a-z2-7]{26}\.[\w-]+`)
	approvals   = regexp.MustCompile(`oca_[\w-]+`)
	moments     = regexp.MustCompile(` at \d{4}-\d\d-\d\dT[\d:]+Z`)
	consoles    = regexp.MustCompile(`http://127\.0\.0\.1:\d+/console/`)
	appPage     = regexp.MustCompile(`"text":"(?:<|\\u003c)!doctype html(?:[^"\\]|\\.)+"`)
	runs        = regexp.MustCompile(`run_[a-z2-7]{26}`)
	durations   = regexp.MustCompile(`(\\?"(?:ms|ttlMs)\\?":)\d+`)
	usageTokens = regexp.MustCompile(`("usage\\?":\{\\?"tokens\\?":)\d+`)
	times       = regexp.MustCompile(`(\\?"(?:began|createdAt|lastUpdatedAt)\\?":\\?")[^"\\]+`)
)

// replaceVolatile replaces values that differ between runs of the test. It keeps the last of each kind for recall.
func (s *transcriptServer) replaceVolatile(line string) string {
	if match := tokens.FindString(line); match != "" {
		s.token = match
	}
	if match := states.FindString(line); match != "" {
		s.state = match
		line = strings.ReplaceAll(line, match, "STATE")
	}
	if cursor := gjson.Get(line, "result.nextCursor").Str; cursor != "" {
		s.cursor = cursor
		line = strings.ReplaceAll(line, cursor, "CURSOR")
	}
	if match := approvals.FindString(line); match != "" {
		s.approval = match
		line = approvals.ReplaceAllString(line, "APPROVE")
	}
	line = namedKeys.ReplaceAllString(line, "inputResponses.KEY")
	if match := taskKeys.FindStringSubmatch(line); match != nil {
		s.key = strings.TrimSuffix(match[0], match[1])
		line = taskKeys.ReplaceAllString(line, "KEY$1")
	}
	if moments.MatchString(line) {
		line = moments.ReplaceAllString(usageTokens.ReplaceAllString(line, "${1}0"), " at TIME")
	}
	line = consoles.ReplaceAllString(line, "http://127.0.0.1:PORT/console/")
	line = appPage.ReplaceAllString(line, `"text":"PAGE"`)
	if match := runs.FindString(line); match != "" {
		s.run = match
		line = usageTokens.ReplaceAllString(line, "${1}0") // the number of tokens in an id varies
	}
	line = times.ReplaceAllString(runs.ReplaceAllString(line, "RUN"), "${1}TIME")
	line = sessions.ReplaceAllString(tokens.ReplaceAllString(line, "TOKEN"), "Mcp-Session-Id: SESSION")
	return durations.ReplaceAllString(compact(line), "${1}0")
}

// recall replaces TOKEN in a request with the last continuation token, and likewise RUN, STATE, APPROVE, CURSOR and KEY.
func (s *transcriptServer) recall(line string) string {
	return strings.NewReplacer("TOKEN", s.token, "RUN", s.run, "STATE", s.state, "APPROVE", s.approval, "CURSOR", s.cursor,
		"KEY", s.key).Replace(line)
}

// manual matches the beginning of a long text that a model reads. Other tests check such texts.
var manual = regexp.MustCompile(`"(description|instructions)":"((?:[^"\\]|\\.){60})(?:[^"\\]|\\.)+"`)

// grammar matches the schema of the tool chain, which is generated.
var grammar = regexp.MustCompile(`"inputSchema":\{"type":"object","properties":\{"steps".*?\},"name":"chain`)

// compact removes what every message has, and the ends of long descriptions.
func compact(line string) string {
	if !json.Valid([]byte(line)) {
		return line
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(line)) != nil {
		return line
	}
	text := strings.Replace(b.String(), `"jsonrpc":"2.0",`, "", 1)
	return manual.ReplaceAllString(grammar.ReplaceAllString(text, `"inputSchema":"…","name":"chain`), `"$1":"$2…"`)
}
