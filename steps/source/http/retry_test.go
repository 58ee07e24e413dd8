package http_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

var quiet = log.New(io.Discard, "", 0)

// script gives one answer for each attempt, and repeats the last one.
type script struct {
	attempts []attempt
	sent     int
}

type attempt struct {
	status     int
	retryAfter string
	body       string
	cut        bool // the body breaks off
	err        error
	hang       bool // the attempt hangs until the context is done
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	a := s.attempts[min(s.sent, len(s.attempts)-1)]
	s.sent++
	if a.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	response := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body))}
	if a.retryAfter != "" {
		response.Header.Set("Retry-After", a.retryAfter)
	}
	if a.cut {
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(a.body), brokenBody{}))
	}
	return response, nil
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestRetries(t *testing.T) {
	t.Parallel()
	ok := attempt{status: 200, body: "ok"}
	refused := attempt{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	noDate := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC).Format(http.TimeFormat) // a synctest clock starts at midnight
	tests := []struct {
		name     string
		method   string
		attempts []attempt
		timeout  time.Duration // 0: 10 minutes; -1: only that of the source's options, a minute
		cancel   time.Duration // 0: never
		retries  int           // the retries in the source's options
		sent     int
		code     fault.Code
		status   int
		minimum  time.Duration // the minimum time that the call takes
		maximum  time.Duration
	}{
		{name: "503 twice", method: "GET", attempts: []attempt{{status: 503}, {status: 503}, ok}, sent: 3, minimum: 750 * time.Millisecond,
			maximum: 1500 * time.Millisecond},
		{name: "502, 504, 429", method: "HEAD", attempts: []attempt{{status: 502}, {status: 504}, {status: 429}, ok}, sent: 4,
			minimum: 1750 * time.Millisecond, maximum: 3500 * time.Millisecond},
		{name: "all attempts", method: "GET", attempts: []attempt{{status: 503}}, sent: 4, code: fault.FunctionFailed, status: 503,
			minimum: time.Second, maximum: 4 * time.Second},
		{name: "500 is an answer", method: "GET", attempts: []attempt{{status: 500}, ok}, sent: 1, code: fault.FunctionFailed, status: 500},
		{name: "404 is an answer", method: "GET", attempts: []attempt{{status: 404}, ok}, sent: 1, code: fault.FunctionFailed, status: 404},
		{name: "PUT and DELETE are idempotent", method: "PUT", attempts: []attempt{{status: 503}, ok}, sent: 2, maximum: time.Second},
		{name: "DELETE", method: "DELETE", attempts: []attempt{refused, ok}, sent: 2, maximum: time.Second},
		{name: "POST never", method: "POST", attempts: []attempt{{status: 503, retryAfter: "1"}, ok}, sent: 1, code: fault.FunctionFailed,
			status: 503},
		{name: "PATCH never", method: "PATCH", attempts: []attempt{{status: 429}, ok}, sent: 1, code: fault.FunctionFailed, status: 429},
		{name: "POST never, connection", method: "POST", attempts: []attempt{refused, ok}, sent: 1, code: fault.Unavailable},
		{name: "POST never, truncated body", method: "POST", attempts: []attempt{{status: 200, body: "o", cut: true}, ok}, sent: 1,
			code: fault.Unavailable},
		{name: "connection", method: "GET", attempts: []attempt{refused, refused, ok}, sent: 3, minimum: 750 * time.Millisecond,
			maximum: 1500 * time.Millisecond},
		{name: "all attempts refused", method: "GET", attempts: []attempt{refused}, sent: 4, code: fault.Unavailable, maximum: 4 * time.Second},
		{name: "truncated body", method: "GET", attempts: []attempt{{status: 200, body: "o", cut: true}, ok}, sent: 2, maximum: time.Second},
		{name: "truncated body, all attempts", method: "GET", attempts: []attempt{{status: 200, body: "o", cut: true}}, sent: 4,
			code: fault.Unavailable, maximum: 4 * time.Second},
		{name: "no such host", method: "GET", attempts: []attempt{{err: &net.DNSError{Err: "no such host", IsNotFound: true}}}, sent: 1,
			code: fault.Unavailable},
		{name: "Retry-After in seconds", method: "GET", attempts: []attempt{{status: 429, retryAfter: "42"}, ok}, sent: 2,
			minimum: 42 * time.Second, maximum: 42 * time.Second},
		{name: "Retry-After as a date", method: "GET", attempts: []attempt{{status: 503, retryAfter: noDate}, ok}, sent: 2,
			minimum: 7 * time.Second, maximum: 7 * time.Second},
		{name: "Retry-After in the past", method: "GET", attempts: []attempt{{status: 503, retryAfter: "Fri, 31 Dec 1999 23:59:59 GMT"}, ok},
			sent: 2},
		{name: "Retry-After past the deadline", method: "GET", attempts: []attempt{{status: 503, retryAfter: "60"}, ok},
			timeout: 30 * time.Second, sent: 1, code: fault.FunctionFailed, status: 503},
		{name: "back-off past the deadline", method: "GET", attempts: []attempt{{status: 503}}, timeout: 2 * time.Second, sent: 3,
			code: fault.FunctionFailed, status: 503, minimum: 750 * time.Millisecond, maximum: 1500 * time.Millisecond},
		{name: "absurd Retry-After", method: "GET", attempts: []attempt{{status: 503, retryAfter: "18446744073709551615"}, ok}, sent: 1,
			code: fault.FunctionFailed, status: 503},
		{name: "invalid Retry-After", method: "GET", attempts: []attempt{{status: 503, retryAfter: "soon"}, ok}, sent: 2, maximum: time.Second},
		{name: "cancelled between attempts", method: "GET", attempts: []attempt{{status: 503, retryAfter: "60"}}, cancel: 3 * time.Second,
			sent: 1, code: fault.Cancelled, minimum: 3 * time.Second, maximum: 3 * time.Second},
		{name: "no deadline", method: "GET", attempts: []attempt{{hang: true}}, timeout: -1, sent: 1, code: fault.Timeout,
			minimum: time.Minute, maximum: time.Minute},
		{name: "retries off", method: "GET", attempts: []attempt{{status: 503}}, retries: -1, sent: 1, code: fault.FunctionFailed, status: 503},
		{name: "deadline while it hangs", method: "GET", attempts: []attempt{{hang: true}}, timeout: 5 * time.Second, sent: 1,
			code: fault.Timeout, minimum: 5 * time.Second, maximum: 5 * time.Second},
		{name: "deadline of a POST", method: "POST", attempts: []attempt{{hang: true}}, timeout: 5 * time.Second, sent: 1,
			code: fault.Timeout, minimum: 5 * time.Second, maximum: 5 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &script{attempts: test.attempts}
				o := httpsource.Options{Allow: []string{"example.com"}, Transport: server, Retries: test.retries}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if test.timeout < 0 {
					o.Timeout = time.Minute
				} else {
					ctx, cancel = context.WithTimeout(ctx, cmp.Or(test.timeout, 10*time.Minute))
					defer cancel()
				}
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}
				s := open(t, &o)
				start := time.Now()
				result, err := invoke(ctx, s, "http.request", `{"method":"`+test.method+`","url":"https://example.com"}`)
				took := time.Since(start)
				f, _ := fault.As(err)
				switch {
				case fault.CodeOf(err) != test.code:
					t.Errorf("got %v, want %q", err, test.code)
				case err == nil && gjson.GetBytes(result, "body").Str != "ok":
					t.Errorf("got %s, want ok", result)
				case f != nil && f.Status != test.status:
					t.Errorf("got status %d, want %d", f.Status, test.status)
				}
				if server.sent != test.sent {
					t.Errorf("got %d attempts, want %d", server.sent, test.sent)
				}
				if took < test.minimum || took > test.maximum {
					t.Errorf("took %v, want %v to %v", took, test.minimum, test.maximum)
				}
			})
		})
	}
}
