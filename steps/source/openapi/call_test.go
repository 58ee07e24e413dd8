package openapi

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// mockTransport is a Doer that writes each request as bytes, parses it again, and passes it to a handler, without a socket.
type mockTransport struct{ http.Handler }

func (w mockTransport) Do(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	var sent bytes.Buffer
	if err := request.Write(&sent); err != nil {
		return nil, err
	}
	received, err := http.ReadRequest(bufio.NewReader(&sent))
	if err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, received.WithContext(request.Context()))
	response := recorder.Result()
	response.Request = request
	return response, nil
}

// callOf calls a function of a source; name lacks the source's name.
func callOf(tb testing.TB, s *Source, name, args string) (string, error) {
	tb.Helper()
	for _, fn := range s.Functions() {
		if fn.Name == "api."+name {
			result, err := fn.Call(tb.Context(), []byte(args))
			return string(result), err
		}
	}
	tb.Fatalf("the source has no function %s", name)
	return "", nil
}

// sourceOf makes a source from operations, without reading a document.
func sourceOf(tb testing.TB, o Options, doc *document) *Source {
	tb.Helper()
	s, err := trySource(o, doc)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func trySource(o Options, doc *document) (*Source, error) {
	o.Name, o.Spec = "api", "https://docs.example.com/v1/openapi.json"
	s, err := prepare(&o)
	if err != nil {
		return nil, err
	}
	if s.current, err = s.assemble(doc); err != nil {
		return nil, err
	}
	s.status.State = steps.StateReady
	return s, nil
}
