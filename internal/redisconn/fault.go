package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onecall-mcp/onecall/fault"
)

var errProtocol = errors.New("not an answer of Redis")

// connectionClosed reports whether an attempt failed because its connection was closed.
func connectionClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// fault converts the error of an operation for its caller. ctx is the caller's context, and limited that of the operation, which ends
// after bound. Only the cause of the error, for operators, says which server it is and what is wrong with it.
func (c *Client) fault(ctx, limited context.Context, bound time.Duration, err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return err
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	switch {
	case c.isClosed():
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) { // the connection may notice the deadline first
		return context.DeadlineExceeded
	}
	f := fault.New(fault.Unavailable, "The %s cannot be reached now: try again in a few seconds.", c.o.Name)
	within := c.o.Timeout
	if end, ok := limited.Deadline(); ok && !time.Now().Before(end) {
		within = bound
	}
	message := fmt.Sprintf("the %s at %s %s", c.o.Name, c.address, reason(err, within)) // err may contain text of the server
	if f.Err = errors.New(message); isTimeout(err) {
		f.Err = &timeoutError{message} // the breaker recognizes timeouts by this type
	}
	return f
}

// isTimeout reports whether an operation ended because there was no answer in time.
func isTimeout(err error) bool {
	var reply redis.Error
	var timeout interface{ Timeout() bool }
	return !errors.As(err, &reply) && (errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded))
}

// reason describes what is wrong. Of the server's text it contains at most a code. within is the bound that ended an operation that took
// too long.
func reason(err error, within time.Duration) string {
	var reply redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &reply):
		return refusal(reply.Error())
	case certificateProblem(err) != "":
		return "cannot be trusted: " + certificateProblem(err)
	case isTimeout(err):
		return fmt.Sprintf("did not answer within %v", within)
	case errors.Is(err, errBusy) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Sprintf("is busy: no connection was free within %v", within)
	case errors.As(err, &dial) && dial.Op == "dial":
		return "cannot be reached: " + dial.Err.Error()
	case connectionClosed(err):
		return "closed the connection"
	}
	return "does not answer as Redis does: is another server there, or does it want TLS (rediss://)?"
}

// certificateProblem returns why a server's certificate is not accepted, or "".
func certificateProblem(err error) string {
	var verification *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var host x509.HostnameError
	switch {
	case errors.As(err, &host):
		return "its certificate is for another host"
	case errors.As(err, &verification):
		return "its certificate is not from an authority that this machine knows, or not valid now"
	case errors.As(err, &header):
		return "it does not speak TLS"
	}
	return ""
}

// refusal explains an error reply of the server.
func refusal(reply string) string {
	code, rest, _ := strings.Cut(reply, " ")
	switch {
	case code == "NOAUTH" || code == "WRONGPASS" || strings.HasPrefix(rest, "invalid password") || strings.HasPrefix(rest, "AUTH "),
		strings.HasPrefix(rest, "Protocol error: unauthenticated"): // reply to a command with many arguments
		return "refuses the user or the password"
	case code == "NOPERM":
		return "does not grant the user the commands or keys that are needed"
	case code == "OOM":
		return "has no memory left; raise its maxmemory, or lower what may be kept"
	case code == "LOADING":
		return "is still reading its data"
	case code == "READONLY" || code == "MASTERDOWN":
		return "is a copy that takes no writes; name the primary"
	case code == "MOVED" || code == "ASK" || code == "CLUSTERDOWN" || code == "CROSSSLOT":
		return "is part of a cluster, which cannot be used; name a server of its own"
	case strings.HasPrefix(rest, "unknown command"):
		return "lacks a command that is needed; it must be Redis 7.0, Valkey 7.2 or later, with none renamed"
	case strings.HasPrefix(rest, "DB index is out of range"):
		return "has no database of that number"
	case strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && len(code) <= 20:
		return "refused a command (" + code + ")"
	}
	return "refused a command"
}
