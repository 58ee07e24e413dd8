package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
)

// dial begins a request of which rest is not sent, and gives the connection.
func dial(t *testing.T, url, method, path string, headers header, rest int) net.Conn {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), Path)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", method, path, host, rest)
	for name, value := range headers {
		text += name + ": " + value + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBody: who does not send what it has announced is let go, whoever it is and wherever it goes.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.readTime = 300 * time.Millisecond
	url := s.behind(t, &Door{Callers: staff})
	json := header{"Content-Type": "application/json"}
	ann := header{"Content-Type": "application/json", "Authorization": "Bearer ann"}
	var conns []net.Conn
	for _, one := range []struct {
		method, path string
		headers      header
	}{
		{"POST", Path, json}, {"POST", Path, ann}, {"POST", Path, header{"Authorization": "Bearer ann", "Content-Type": "text/plain"}},
		{"POST", Path, header{"Host": "evil"}}, {"POST", "/healthz", nil}, {"GET", Path, json}, {"PUT", "/nothing", nil}, {"POST", Path + "?surface=x", ann},
	} {
		conns = append(conns, dial(t, url, one.method, one.path, one.headers, 1000))
	}
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("connection %d is held: %v", i, err)
		}
	}
}

// TestRevokedWhileSending: what was not sent whole is not begun with rights that are gone by then.
func TestRevokedWhileSending(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.behind(t, &Door{Callers: staff})
	for version, body := range map[string]string{
		"2026-07-28": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
		"":           hello,
	} {
		headers := header{"Content-Type": "application/json", "Authorization": "Bearer bob", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
		if version != "" {
			headers["Mcp-Protocol-Version"] = version
		}
		conn := dial(t, url, "POST", Path, headers, len(body))
		for s.callers.visiting("token:bob") == 0 {
			time.Sleep(time.Millisecond)
		}
		s.SetDoor(&Door{Callers: badges{"ann": staff["ann"]}})
		status, text := answerTo(t, conn, body)
		if status != 401 || s.shop.calls.Load() != 0 {
			t.Errorf("%q: %d %s", version, status, text)
		}
		s.SetDoor(&Door{Callers: staff})
	}
}

// visiting tells how many requests of a caller are under way.
func (c *callers) visiting(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.byID[id]; one != nil {
		return one.visits
	}
	return 0
}

// TestListenEnds: a client that listens by a message, whatever its headers say, hears nothing more once it may not.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"2026-07-28": false, "2025-11-25": true} {
		s := serve(t, func(o *Options) { o.Stateless = stateless })
		url := s.behind(t, &Door{Callers: staff})
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer eve", "Mcp-Protocol-Version": name} {
			r.Header.Set(key, value)
		}
		if name == "2026-07-28" {
			r.Header.Set("Mcp-Method", "subscriptions/listen")
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, response.Body)
		}()
		s.SetDoor(&Door{Callers: badges{"ann": staff["ann"]}})
		<-ended
		response.Body.Close()
		for open := 1; open > 0; time.Sleep(time.Millisecond) { // the test's own time is the bound
			s.mu.Lock()
			open = len(s.streams)
			s.mu.Unlock()
		}
	}
}

// TestSessionsAtOnce: as many sessions begin as may, however many are begun at the same time.
func TestSessionsAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Limits = Limits{Sessions: 5} })
	url := s.behind(t, &Door{Callers: staff})
	var all sync.WaitGroup
	var mu sync.Mutex
	began := map[int]int{}
	for range 40 {
		all.Go(func() {
			r, _ := sendTo(t, "POST", url, hello, header{"Authorization": "Bearer ann"})
			mu.Lock()
			defer mu.Unlock()
			began[r.StatusCode]++
		})
	}
	all.Wait()
	if began[200] != 5 || began[503] != 35 || s.Stats().Sessions != 5 {
		t.Errorf("%v, %d sessions", began, s.Stats().Sessions)
	}
}

// TestFacesGo: rights that nobody has any more leave nothing behind.
func TestFacesGo(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Surface = SurfaceFlat })
	url := s.behind(t, &Door{Callers: staff})
	ann := as(t, url, "ann", "2025-11-25")
	for i := range 20 {
		with := badges{"ann": staff["ann"], "new": {ID: "token:new", Rights: steps.Rights{Tier: steps.TierRead, Functions: fmt.Sprintf("shop.item.* n%d", i)}}}
		o, _ := s.another(t, nil)
		if _, err := s.Reload(o, &Door{Callers: with}); err != nil {
			t.Fatal(err)
		}
		ask(t, as(t, url, "new", "2026-07-28"), "info", `{}`)
	}
	if n := len(s.allFaces()); n > 4 {
		t.Errorf("%d faces", n)
	}
	if text, failed := ask(t, ann, "info", `{}`); failed {
		t.Errorf("a session that stays: %s", text)
	}
}

// TestReloadLetsLinksEnd: a call that runs in a client's own session with an upstream that is not served any more ends as it
// would have.
func TestReloadLetsLinksEnd(t *testing.T) {
	t.Parallel()
	a := newBehind(t, "a", false)
	release, began := make(chan struct{}), make(chan struct{}, 1)
	a.server.AddTool(&sdk.Tool{Name: "wait", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			began <- struct{}{}
			<-release
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "waited"}}}, nil
		})
	s := inFront(t, a)
	client := over(t, s.http(t, reader), "2025-11-25", nil)
	ended := make(chan string, 1)
	name := ""
	for _, tool := range strings.Fields(names(t, client)) {
		if strings.HasSuffix(tool, "wait") {
			name = tool
		}
	}
	go func() {
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(`{}`)})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- result.Content[0].(*sdk.TextContent).Text
	}()
	<-began
	o := *s.o()
	o.Upstreams = nil
	drained, err := s.Reload(&o, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
		t.Error("drained while a call runs")
	case text := <-ended:
		t.Errorf("the call has ended: %s", text)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if text := <-ended; text != "waited" {
		t.Errorf("the call: %s", text)
	}
	<-drained
}

// answerTo sends the rest of a request, and reads what it is answered.
func answerTo(t *testing.T, conn net.Conn, body string) (status int, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}
