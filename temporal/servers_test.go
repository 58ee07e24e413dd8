//go:build unix

package temporal_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// runDurable hands a chain to an engine, and returns the answer.
func runDurable(t *testing.T, engine string, variables ...string) gjson.Result {
	t.Helper()
	home := t.TempDir()
	clitest.Write(t, home, "one.json", `{"steps":[{"expr":"1"}]}`)
	cmd := clitest.Self(t, home, "run", "--engine", engine, "one.json")
	cmd.Env = append(cmd.Env, variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && stdout.Len() == 0 {
		t.Fatalf("run: %v: %s", err, &stderr)
	}
	return gjson.ParseBytes(stdout.Bytes())
}

// tlsConfig returns the configuration of a TLS server of this machine, and the file of its certificate.
func tlsConfig(t *testing.T) (config *tls.Config, certificate string) {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil)
	t.Cleanup(borrowed.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: borrowed.Certificate().Raw})
	return &tls.Config{Certificates: borrowed.TLS.Certificates, NextProtos: []string{"h2"}},
		clitest.Write(t, t.TempDir(), "ca.pem", string(text))
}

// tlsProxy returns the address of a TLS port that leads to another one.
func tlsProxy(t *testing.T, target string, config *tls.Config) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
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
				backend, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer backend.Close()
				go func() { _, _ = io.Copy(backend, conn) }()
				_, _ = io.Copy(conn, backend)
			}()
		}
	}()
	return listener.Addr().String()
}

// TestTLS: a server behind TLS is reached with Temporal's own variables. Without them the error mentions TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := startTemporal(t)
	config, certificate := tlsConfig(t)
	engine := "temporal://" + tlsProxy(t, server.address, config)
	if a := runDurable(t, engine); a.Get("error.code").Str != "unavailable" || !strings.Contains(a.Get("error.message").Str, "TLS") {
		t.Errorf("without TLS: got %s, want unavailable", a)
	}
	// The namespace is refused by the server itself.
	a := runDurable(t, engine+"/nope", "TEMPORAL_TLS=true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+certificate)
	if a.Get("error.code").Str != "bad_request" || !strings.Contains(a.Get("error.message").Str, "no namespace") {
		t.Errorf("with TLS: got %s, want bad_request about the namespace", a)
	}
	if a = runDurable(t, engine, "TEMPORAL_TLS=true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH=/nowhere"); a.Get("error.code").Str != "bad_request" {
		t.Errorf("with a missing certificate file: got %s, want bad_request", a)
	}
}

// TestExpiredKey: if a server refuses an API key, the error is denied, and does not contain the key.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	config, certificate := tlsConfig(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unauthenticated, "Request unauthorized: the token has expired.")
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	a := runDurable(t, "temporal://"+listener.Addr().String(), "TEMPORAL_API_KEY=hunter2", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+certificate)
	if a.Get("error.code").Str != "denied" || strings.Contains(a.Raw, "hunter2") {
		t.Errorf("got %s, want denied without the key", a)
	}
}

// TestWorkerMetrics: a worker shows the engine's metrics beside its own, and is ready once it asks for work.
func TestWorkerMetrics(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	w := s.startWorker(t, "--metrics", "127.0.0.1:0")
	ids := s.batch(t, "b", 3)
	answers, message, status := s.run(t, "run", "--durable", "b.jsonl")
	if s.checkAnswers(t, ids, answers); status != "0" {
		t.Fatalf("got exit %s, want 0: %s", status, message)
	}
	address := regexp.MustCompile(`http://[0-9.:]+`).FindString(w.log.String())
	get := func(path string) string {
		response, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %s, %v, want 200: %s", path, response.Status, err, text)
		}
		return string(text)
	}
	get("/readyz")
	text := get("/metrics")
	for _, want := range []string{
		`(?m)^onecall_calls_total\{code="ok",function="http.write",source="http"\} 3$`,
		`(?m)^temporal_activity_execution_latency_seconds_count\{.*activity_type="onecall.chunk".*\} 3$`,
		`(?m)^temporal_activity_schedule_to_start_latency_seconds_count\{.*\} 3$`,
		`(?m)^temporal_worker_task_slots_available\{.*worker_type="ActivityWorker".*\} `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// TestSmallBatchIsConcurrent: the chains of a small batch run concurrently if workers have slots for them. Here each waits for all others.
func TestSmallBatchIsConcurrent(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	for range 2 {
		s.startWorker(t, "--jobs", "100")
	}
	const n = 150
	var arrived atomic.Int32
	all := make(chan struct{})
	s.poison(func() {
		if arrived.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(clitest.TooLong):
		}
	})
	clitest.Write(t, s.home, "together.jsonl", strings.Repeat(`{"steps":[{"fn":"http.read","args":{"id":"poison"}}]}`+"\n", n))
	out, message, status := s.run(t, "run", "--durable", "together.jsonl")
	if status != "0" || strings.Count(out, `"status":"ok"`) != n {
		t.Errorf("got exit %s, %d chains at once, want 0 and %d: %s\n%.2000s", status, arrived.Load(), n, message, out)
	}
}

// TestHistory: Temporal stores the name of a batch's file, but none of its functions, arguments and results.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.startWorker(t)
	ids := s.batch(t, "hunter2", 2)
	if err := os.Rename(filepath.Join(s.home, "hunter2.jsonl"), filepath.Join(s.home, "file.jsonl")); err != nil {
		t.Fatal(err)
	}
	answers, message, _ := s.run(t, "run", "--durable", "file.jsonl")
	s.checkAnswers(t, ids, answers)
	history, err := s.cli("workflow", "show", "--workflow-id", "onecall-"+batchID.FindString(message), "--output", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(history)
	for _, payload := range regexp.MustCompile(`"data": *"([^"]*)"`).FindAllStringSubmatch(text, -1) {
		decoded, err := base64.StdEncoding.DecodeString(payload[1])
		if err != nil {
			t.Fatal(err)
		}
		text += string(decoded)
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "http.") || !strings.Contains(text, `"file.jsonl"`) ||
		!strings.Contains(text, `"OK":1`) {
		t.Errorf("got history %s, want the name of the file and OK, without functions, arguments and results", text)
	}
}
