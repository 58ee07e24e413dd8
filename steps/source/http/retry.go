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

// checkRetry decides whether a repeatable request is sent again. If the wait would outlast the context, the current answer
// is returned.
func (c *Client) checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	if !isTransient(ctx, response, err) {
		return false, nil
	}
	wait := c.options.RetryWaitMin
	if asked, ok := retryAfter(response); ok {
		wait = asked
	}
	patience := maxWait
	if deadline, limited := ctx.Deadline(); limited {
		patience = time.Until(deadline)
	}
	return patience > wait, nil
}

// isTransient reports whether an attempt failed in a way that may pass: a failed connection, or a status that says "later".
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

// connectionFailed reports whether another attempt may help, unlike after our own refusals, an unknown host, a certificate
// error or a malformed request.
func connectionFailed(ctx context.Context, err error) bool {
	var dns *net.DNSError
	if _, ours := fault.As(err); ours || errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	again, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	return again
}

// backoff returns the time to the next attempt: what the server asks for, else exponential with a random upper half.
func backoff(least, most time.Duration, attempt int, response *http.Response) time.Duration {
	if asked, ok := retryAfter(response); ok {
		return asked
	}
	wait := most
	if attempt < 30 && least<<attempt < most {
		wait = least << attempt
	}
	return wait/2 + rand.N(wait/2+1)
}

// maxWait bounds the wait for the next attempt if the context has no deadline.
const maxWait = 2 * time.Minute

// maxRetryAfter keeps a huge Retry-After from overflowing; no context lives that long.
const maxRetryAfter = 1 << 30

// retryAfter parses Retry-After, seconds or an HTTP date; a date in the past is 0. response may be nil.
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
