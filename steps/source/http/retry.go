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

// checkRetry reports whether to send a repeatable request again: not if the server's Retry-After, or without one RetryWaitMin, would
// outlast the context's deadline, or maxWait if there is none.
func (c *Client) checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	if !isTransient(ctx, response, err) {
		return false, nil
	}
	wait := c.options.RetryWaitMin
	if requested, ok := retryAfter(response); ok {
		wait = requested
	}
	available := maxWait
	if deadline, limited := ctx.Deadline(); limited {
		available = time.Until(deadline)
	}
	return available > wait, nil
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
	wait := longest
	if attempt < 30 && shortest<<attempt < longest { // a larger shift could overflow
		wait = shortest << attempt
	}
	return wait/2 + rand.N(wait/2+1)
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
