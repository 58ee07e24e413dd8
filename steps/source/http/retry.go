package http

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/onecall-mcp/onecall/fault"
)

// checkRetry reports whether to send a repeatable request again: not if the server's Retry-After, or without one the longest back-off of
// the next retry, would outlast the context's deadline, or maxWait if there is none. A deadline during the wait would lose the answer.
func (c *Client) checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	if !isTransient(ctx, response, err) {
		return false, nil
	}
	retries, _ := ctx.Value(retriesKey{}).(int)
	wait := longestBackoff(c.options.RetryWaitMin, c.options.RetryWaitMax, retries)
	if requested, ok := retryAfter(response); ok {
		wait = requested
	}
	available := maxWait
	if deadline, limited := ctx.Deadline(); limited {
		available = time.Until(deadline)
	}
	return available > wait, nil
}

type retriesKey struct{}

// countRetry counts a request's retries in its context, for checkRetry.
func countRetry(request *http.Request) error {
	ctx := request.Context()
	retries, _ := ctx.Value(retriesKey{}).(int)
	*request = *request.WithContext(context.WithValue(ctx, retriesKey{}, retries+1))
	return nil
}

// isTransient reports whether an attempt failed in a way that may pass: a failed connection, or a status that means "try later".
func isTransient(ctx context.Context, response *http.Response, err error) bool {
	if err != nil {
		return ctx.Err() == nil && connectionFailed(ctx, err)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// connectionFailed reports whether another attempt may help. It does not help after a refusal by onecall itself, an unknown host, a
// certificate error or a malformed request.
func connectionFailed(ctx context.Context, err error) bool {
	var dns *net.DNSError
	if _, coded := fault.As(err); coded || errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	retry, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	return retry
}

// backoff returns the time to the next attempt: the time that the server requests, else an exponential
// back-off, of which the upper half is random.
func backoff(shortest, longest time.Duration, attempt int, response *http.Response) time.Duration {
	if requested, ok := retryAfter(response); ok {
		return requested
	}
	wait := longestBackoff(shortest, longest, attempt)
	return wait/2 + rand.N(wait/2+1)
}

// longestBackoff returns the longest exponential back-off after an attempt; the first attempt is 0.
func longestBackoff(shortest, longest time.Duration, attempt int) time.Duration {
	if attempt < 30 && shortest<<attempt < longest { // a larger shift could overflow
		return shortest << attempt
	}
	return longest
}

// maxWait bounds the wait for the next attempt if the context has no deadline.
const maxWait = 2 * time.Minute

// maxRetryAfter, in seconds, prevents the overflow of a huge Retry-After; no context lives that long.
const maxRetryAfter = 1 << 30

// retryAfter parses Retry-After, seconds or an HTTP date; a date in the past is 0. It returns false if there is no
// usable Retry-After. response may be nil.
func retryAfter(response *http.Response) (time.Duration, bool) {
	if response == nil {
		return 0, false
	}
	value := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, maxRetryAfter)) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0), true
	}
	return 0, false
}
