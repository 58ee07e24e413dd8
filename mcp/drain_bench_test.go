package mcp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkBegun is what it costs each request that a server may be shutting down.
func BenchmarkBegun(b *testing.B) {
	s := &Server{}
	body, _ := statelessCall("1", "tools/call", `"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`)
	r := httptest.NewRequestWithContext(context.WithValue(b.Context(), connKey{}, net.Conn(&net.TCPConn{})), http.MethodPost, "/mcp", nil)
	m := &message{body: []byte(body), method: "tools/call"}
	var fresh newcomers
	h := fresh.heard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, end, ok := s.begun(w, r, m); ok {
			end()
		}
	}))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.ServeHTTP(nil, r)
		}
	})
	if s.calls.admitted.Load() != 0 {
		b.Error("not all have left")
	}
}
