//go:build e2e && unix

package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// plantedSecret is a secret of the configuration that upstreams repeat wherever a library may log it.
const plantedSecret = "hunter2-hunter2-hunter2"

// TestLibrariesLogNoSecret runs commands against upstreams that send a configured credential in every place that a library may log.
// No output may contain it or its beginning.
func TestLibrariesLogNoSecret(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "all.chain.json"}, {"--verbose", "run", "all.chain.json"}, {"tools"}, {"check", "all.chain.json"},
		{"call", "http.get", "url=http://127.0.0.1:1/"}, {"auth", "status"}, {"serve"},
		{"serve", "--log-format", "json", "--log-level", "debug"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir, requests, environment := hostileUpstreams(t)
			cmd := clitest.Command(t, dir, args...)
			cmd.Env = append(cmd.Env, environment...)
			var out, stderr strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(requests), &out, &stderr
			_ = cmd.Run() // it fails: the upstreams are broken
			for what, text := range map[string]string{"stdout": out.String(), "stderr": stderr.String()} {
				if strings.Contains(text, plantedSecret[:8]) {
					t.Errorf("%s contains the secret:\n%.2000s", what, text)
				}
			}
			var wantLogged []string // messages of net/http and OpenTelemetry
			switch args[0] {
			case "run":
				wantLogged = []string{"Unsolicited response received on idle HTTP channel"}
			case "serve":
				wantLogged = []string{"Unsolicited response received on idle HTTP channel", "traces cannot be sent"}
			}
			for _, want := range wantLogged {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr lacks %q, so the upstreams were not tried:\n%.2000s", want, stderr.String())
				}
			}
		})
	}
}

// hostileUpstreams writes a configuration whose upstreams are hostile, and a chain that calls them. requests are those of a client that
// runs the chain. environment has the URL of a trace collector and the credential of a service.
func hostileUpstreams(t *testing.T) (dir, requests string, environment []string) {
	leaked := make(chan struct{}) // closed when the client has closed the connection with an unsolicited answer
	closeLeaked := sync.OnceFunc(func() { close(leaked) })
	read := make(chan struct{}) // closed when the client has read the first answer, so that the connection is idle
	closeRead := sync.OnceFunc(func() { close(read) })
	idle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeRaw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", func(c net.Conn) {
			closed := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, c)
				close(closed)
			}()
			select {
			case <-read:
			case <-closed:
			}
			fmt.Fprintf(c, "HTTP/1.1 400 %s\r\n\r\n%s", plantedSecret, strings.Repeat(plantedSecret, 500))
			<-closed
			closeLeaked()
		})
	}))
	t.Cleanup(idle.Close)
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			closeRead()
			select {
			case <-leaked:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, "{}")
		case "/header":
			writeRaw(w, "HTTP/1.1 200 OK\r\n"+plantedSecret+" no header\r\n\r\n{}", nil)
		case "/status":
			writeRaw(w, plantedSecret+"\r\n\r\n", nil)
		case "/chunk":
			writeRaw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+plantedSecret+"\r\n", nil)
		case "/token":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":%q}`, plantedSecret)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, plantedSecret)
		case "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\nid: %s\ndata: {\"jsonrpc\":\"2.0\",%s\n\n%s\n\n", plantedSecret, plantedSecret, plantedSecret)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","method":%q,"id":%q}`, plantedSecret, plantedSecret)
		}
	}))
	t.Cleanup(hostile.Close)
	database := serveTCP(t, func(c net.Conn) { // a refusal that PostgreSQL may send, with a text of the server's choice
		_, _ = c.Read(make([]byte, 1000))
		fields := "SFATAL\x00VFATAL\x00C57P03\x00M" + plantedSecret + "\x00\x00"
		_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte("E"), uint32(4+len(fields))), fields...))
	})
	tls := serveTCP(t, func(c net.Conn) { fmt.Fprintf(c, "%s\r\n\r\n", plantedSecret) })
	dir = t.TempDir()
	clitest.Write(t, dir, "noisy.sh", "echo \"$A_TOKEN\" >&2; echo \"$A_TOKEN\"; exit 1\n")
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf(`
http: {allow: [%[1]q, %[3]q, %[5]q]}
results: {store: postgres}
journal: {store: "postgres://me:%[4]s@%[2]s/runs?sslmode=disable", key: "${PLANTED}${PLANTED}"}
mcpServers:
  sse: {url: "http://%[1]s/sse", headers: {Authorization: "Bearer %[4]s"}}
  plain: {url: "http://%[1]s/json", headers: {Authorization: "Bearer %[4]s"}}
  noisy: {command: sh, args: [noisy.sh], env: {A_TOKEN: %[4]q}}
openapi:
  api: {spec: api.json, baseUrl: "http://%[1]s", auth: {login: {clientId: me, clientSecret: "${PLANTED}", tokenUrl: "http://%[1]s/token"}}}
`, strings.TrimPrefix(hostile.URL, "http://"), database, tls, plantedSecret, strings.TrimPrefix(idle.URL, "http://")))
	clitest.Write(t, dir, "api.json", `{"openapi":"3.0.3","info":{"title":"t","version":"1"},"paths":{"/ask":{"get":{"operationId":"ask","security":[{"login":[]}],
		"responses":{"200":{"description":"ok"}}}}},"components":{"securitySchemes":{"login":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://h/token","scopes":{}}}}}}}`)
	list := []string{`{"fn":"api.ask.get"}`, fmt.Sprintf(`{"fn":"http.get","args":{"url":"%s"}}`, idle.URL)}
	for _, path := range []string{"wait?${$1.status}", "header", "status", "chunk", "gzip"} {
		list = append(list, fmt.Sprintf(`{"fn":"http.get","args":{"url":"%s/%s"}}`, hostile.URL, path))
	}
	list = append(list, fmt.Sprintf(`{"fn":"http.get","args":{"url":"https://%s/"}}`, tls))
	chain := `{"onError":"continue","budget":{"maxTotalTokens":400},"steps":[` + strings.Join(list, ",") +
		`,{"fn":"expr.eval","args":{"expression":"1..5000"}}]}`
	clitest.Write(t, dir, "all.chain.json", chain)
	requests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":` + chain + `}}` + "\n"
	environment = []string{"PLANTED=" + plantedSecret, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + hostile.URL + "/status",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer " + plantedSecret, "OTEL_SERVICE_NAME=" + plantedSecret}
	return dir, requests, environment
}

// writeRaw writes an answer byte by byte, calls after unless it is nil, and closes the connection.
func writeRaw(w http.ResponseWriter, answer string, after func(net.Conn)) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, answer)
	if after != nil {
		after(conn)
	}
}

// serveTCP serves connections until the test ends, and returns the address.
func serveTCP(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}
