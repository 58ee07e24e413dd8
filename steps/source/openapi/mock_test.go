package openapi

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

var braces = regexp.MustCompile(`\{[^}]*\}`)

// escapedPath escapes fixed text of a path as net/http shows it.
func escapedPath(text string) string {
	return strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E").Replace(text)
}

// wire is a Doer that sends each request through its bytes to a handler, without a socket.
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

// callOf calls a function of a source by its name without the source's.
func callOf(tb testing.TB, s *Source, name, args string) (string, error) {
	tb.Helper()
	for _, fn := range s.Functions() {
		if fn.Name == "api."+name {
			result, err := fn.Call(tb.Context(), []byte(args))
			return string(result), err
		}
	}
	tb.Fatalf("no function %s", name)
	return "", nil
}
