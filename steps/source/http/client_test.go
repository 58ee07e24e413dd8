package http_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func newTestRequest(ctx context.Context, method, url, body string) *http.Request {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		panic(err)
	}
	return request
}

// TestRetriedBody: a PUT is repeated with its body, which is read only once.
func TestRetriedBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		c := testClient(t, httpsource.ClientOptions{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			if r.ContentLength != 4 {
				t.Errorf("got content length %d, want 4", r.ContentLength)
			}
			return respond(503, "", "Retry-After", "1"), nil
		})})
		response, err := c.Do(newTestRequest(t.Context(), http.MethodPost, "https://a.example", "body"))
		if err != nil || response.StatusCode != 503 || len(bodies) != 1 {
			t.Errorf("the POST was sent %d times, want 1: %v", len(bodies), err)
		}
		bodies = nil
		unread := newTestRequest(t.Context(), http.MethodPut, "https://a.example", "body")
		unread.GetBody = nil
		if _, err := c.Do(unread); err != nil || strings.Join(bodies, " ") != "body body body body" {
			t.Errorf("got bodies %q, %v, want four times body", bodies, err)
		}
	})
}

// TestOutcomes checks the outcomes of writes that broke off.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusSeeOther)
		case "/denied":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusSeeOther)
		case "/slow":
			_, _ = io.Copy(io.Discard, r.Body) // after the body, the server watches the connection
			close(arrived)
			<-r.Context().Done()
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	rules, err := new(egress.Rules).WithURLs(server.URL, "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c := testClient(t, httpsource.ClientOptions{Rules: rules, Retries: -1})
	tests := []struct {
		method, url string
		code        fault.Code
		outcome     fault.Outcome
	}{
		{"POST", "http://127.0.0.1:1", fault.Unavailable, fault.NotSent},
		{"GET", "http://127.0.0.1:1", fault.Unavailable, fault.NotSent},
		{"POST", server.URL + "/lost", fault.Unavailable, fault.SentUnknown},
		{"PUT", server.URL + "/lost", fault.Unavailable, fault.SentUnknown},
		{"GET", server.URL + "/lost", fault.Unavailable, ""},
		{"POST", server.URL + "/away", fault.Unavailable, fault.SentUnknown},
		{"POST", server.URL + "/denied", fault.Denied, fault.SentUnknown},
		{"POST", "http://elsewhere.example/", fault.Denied, fault.NotSent},
	}
	for _, test := range tests {
		_, err := c.Do(newTestRequest(t.Context(), test.method, test.url+"?token=topsecret", ""))
		if f, _ := fault.As(err); f == nil || f.Code != test.code || f.Outcome != test.outcome || strings.Contains(f.Message, "topsecret") ||
			strings.Contains(f.Message, "not known whether the "+test.method+" was carried out") != (f.Code == fault.Unavailable &&
				f.Outcome == fault.SentUnknown) {
			t.Errorf("%s %s: got %v, %+v, want %s and %q without the secret", test.method, test.url, err, f, test.code, test.outcome)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err = c.Do(newTestRequest(ctx, http.MethodPost, server.URL+"/slow", "x"))
	if f, _ := fault.As(err); f == nil || f.Code != fault.Cancelled || f.Outcome != fault.SentUnknown {
		t.Errorf("a request cancelled while it runs: got %v, want cancelled and sent_unknown", err)
	}
}

func TestErrorsOfBodiesHaveCodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testClient(t, httpsource.ClientOptions{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			response := respond(200, "")
			response.Body = io.NopCloser(&hangingBody{r.Context()})
			return response, nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		response, err := c.Do(newTestRequest(ctx, http.MethodPost, "https://a.example/?token=topsecret", "x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(response.Body)
		if f, _ := fault.As(err); f == nil || f.Code != fault.Timeout || f.Outcome != fault.SentUnknown ||
			!errors.Is(err, context.DeadlineExceeded) ||
			strings.Contains(err.Error(), "topsecret") {
			t.Errorf("got %v, want timeout and sent_unknown", err)
		}
	})
}

// hangingBody is a body that never arrives.
type hangingBody struct{ ctx context.Context }

func (h *hangingBody) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }

func TestClosedClient(t *testing.T) {
	t.Parallel()
	c := testClient(t, httpsource.ClientOptions{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return respond(200, ""),
			nil
	})})
	other := c.With(egress.AnyPublic())
	_ = c.Close()
	if _, err := c.Do(newTestRequest(t.Context(), http.MethodGet, "https://a.example", "")); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	get(t, other, "https://a.example")
}

func TestUserAgent(t *testing.T) {
	t.Parallel()
	var agent string
	c := testClient(t, httpsource.ClientOptions{UserAgent: "test/1", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		agent = r.Header.Get("User-Agent")
		return respond(200, ""), nil
	})})
	request := newTestRequest(t.Context(), http.MethodGet, "https://a.example", "")
	if _, err := c.Do(request); err != nil || agent != "test/1" || request.Header.Get("User-Agent") != "" {
		t.Errorf("got User-Agent %q, %v, want test/1; the caller's request has %v, want none", agent, err, request.Header)
	}
}

// TestHostileServers: endless answers, headers that arrive slowly, and endless headers.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	const host = "hostile.example"
	for path, want := range map[string]fault.Code{"/endless": fault.LimitExceeded, "/large": fault.LimitExceeded, "/drip": fault.Timeout,
		"/headers": fault.Unavailable, "/garbage": fault.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			var serving sync.WaitGroup
			defer serving.Wait()
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				serving.Go(func() { serveHostile(far) })
				return near, nil
			}}
			defer transport.CloseIdleConnections()
			s := open(t, &httpsource.Options{Allow: []string{host}, Retries: -1, Transport: transport})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := invoke(ctx, s, "http.get", `{"url":"http://`+host+path+`"}`)
			if f, _ := fault.As(err); f == nil || f.Code != want || !strings.Contains(f.Message, host) || len(f.Message) > 500 {
				t.Errorf("%s: %v, want %q with the host, of at most 500 bytes", path, err, want)
			}
		})
	}
}

func serveHostile(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	request := make([]byte, 4096)
	n, err := connection.Read(request)
	if err != nil {
		return
	}
	_, path, _ := strings.Cut(string(request[:n]), " ")
	path, _, _ = strings.Cut(path, " ")
	block := bytes.Repeat([]byte("x"), 1<<20)
	write := func(text string) bool { _, err := io.WriteString(connection, text); return err == nil }
	switch path {
	case "/endless":
		write("HTTP/1.1 200 OK\r\n\r\n")
		for write(string(block)) {
			continue
		}
	case "/large":
		write("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 104857600\r\n\r\n")
		for range 100 {
			if !write(string(block)) {
				return
			}
		}
	case "/drip":
		write("HTTP/1.1 200 OK\r\n")
		for write("X-A: b\r\n") {
			time.Sleep(time.Second)
		}
	case "/headers":
		write("HTTP/1.1 200 OK\r\n")
		for write("X-A: " + string(block) + "\r\n") {
			continue
		}
	default:
		write("\x00\x01\x02" + string(block[:2000]) + "\r\n\r\n")
	}
}
