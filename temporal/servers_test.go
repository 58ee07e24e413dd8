//go:build unix

package temporal_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// durably hands a chain to an engine, and returns the answer.
func durably(t *testing.T, engine string, variables ...string) gjson.Result {
	t.Helper()
	home := t.TempDir()
	clitest.Write(t, home, "one.json", `{"steps":[{"expr":"1"}]}`)
	cmd := clitest.Self(t, home, "run", "--engine", engine, "one.json")
	cmd.Env = append(cmd.Env, variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && stdout.Len() == 0 {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return gjson.ParseBytes(stdout.Bytes())
}

// certified returns what a TLS server of this machine needs, and the file of its certificate.
func certified(t *testing.T) (config *tls.Config, certificate string) {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil)
	t.Cleanup(borrowed.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: borrowed.Certificate().Raw})
	return &tls.Config{Certificates: borrowed.TLS.Certificates, NextProtos: []string{"h2"}}, clitest.Write(t, t.TempDir(), "ca.pem", string(text))
}

// encrypted returns the address of a TLS port that leads to another one.
func encrypted(t *testing.T, to string, config *tls.Config) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				onward, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer onward.Close()
				go func() { _, _ = io.Copy(onward, from) }()
				_, _ = io.Copy(from, onward)
			}()
		}
	}()
	return listener.Addr().String()
}

// TestTLS: a server behind TLS is reached with Temporal's own variables; without them the error speaks of TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := startTemporal(t)
	config, certificate := certified(t)
	engine := "temporal://" + encrypted(t, server.address, config)
	if a := durably(t, engine); a.Get("error.code").Str != "unavailable" || !strings.Contains(a.Get("error.message").Str, "TLS") {
		t.Errorf("without TLS: %s", a)
	}
	// The namespace is refused by the server itself.
	a := durably(t, engine+"/nope", "TEMPORAL_TLS=true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+certificate)
	if a.Get("error.code").Str != "bad_request" || !strings.Contains(a.Get("error.message").Str, "no namespace") {
		t.Errorf("with TLS: %s", a)
	}
	if a = durably(t, engine, "TEMPORAL_TLS=true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH=/nowhere"); a.Get("error.code").Str != "bad_request" {
		t.Errorf("no such file: %s", a)
	}
}

// TestExpiredKey: a server that refuses an API key is denied, and the key is not told.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	config, certificate := certified(t)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unauthenticated, "Request unauthorized: the token has expired.")
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	a := durably(t, "temporal://"+listener.Addr().String(), "TEMPORAL_API_KEY=hunter2", "TEMPORAL_TLS_SERVER_CA_CERT_PATH="+certificate)
	if a.Get("error.code").Str != "denied" || strings.Contains(a.Raw, "hunter2") {
		t.Errorf("%s", a)
	}
}
