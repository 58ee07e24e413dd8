package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// quiet keeps the client from writing to stderr on its own: what goes wrong is told by the operation that it went wrong in.
var quiet = sync.OnceFunc(logging.Disable)

func badURL(format string, args ...any) error {
	return fault.New(fault.BadRequest, "The URL of the result store "+format+" Write redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path/to.sock.", args...)
}

// clientOptions reads the URL. No error repeats any of it but its scheme: anything else of a misspelt one may be the password.
func clientOptions(o *Options) (*redis.Options, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, badURL("cannot be read; characters such as # / ? @ %% in a password are written as %%23 %%2F %%3F %%40 %%25.")
	}
	query := u.Query()
	if u.Scheme == "unix" {
		query.Del("db")
	}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, badURL("begins with %.20q.", u.Scheme)
	case len(query) > 0 || u.Fragment != "" || u.Opaque != "":
		return nil, badURL("has parts that are not known (a query, a fragment).")
	case u.Scheme == "unix" && (u.Path == "" || u.Host != ""):
		return nil, badURL("names no socket by its whole path.")
	case u.Scheme != "unix" && u.Hostname() == "":
		return nil, badURL("names no host.")
	}
	client, err := redis.ParseURL(o.URL)
	if err != nil || client.DB < 0 {
		return nil, badURL("names no database by its number.")
	}
	complete(client, o)
	return client, nil
}

// complete sets all that the URL does not say.
func complete(client *redis.Options, o *Options) {
	d := &dialer{silence: o.Timeout, tls: client.TLSConfig}
	if d.tls != nil && o.TLS != nil {
		own := o.TLS.Clone()
		if own.ServerName == "" {
			own.ServerName = client.TLSConfig.ServerName
		}
		d.tls = own
	}
	client.Dialer = d.dial
	client.DialTimeout, client.DialerRetries = o.Timeout, 1
	client.ReadTimeout, client.WriteTimeout, client.PoolTimeout = longest*o.Timeout, longest*o.Timeout, o.Timeout
	client.ContextTimeoutEnabled = true
	client.MaxRetries = -1 // again tries again
	client.Protocol = 2
	client.PoolSize, client.MaxActiveConns, client.PipelinePoolSize = pooled, pooled, -1
	client.MaxIdleConns, client.ConnMaxIdleTime = idle, 5*time.Minute
	client.DisableIdentity = true
	client.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func newClient(o *redis.Options) *redis.Client {
	quiet()
	return redis.NewClient(o)
}

// do runs an operation unless the context has ended or the store is closed. It leaves with the context; the operation ends
// by itself then, at the latest when the server has been silent for the timeout.
func (s *Store) do(ctx context.Context, operation func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.enter() {
		return budget.ErrClosed
	}
	done := make(chan error, 1)
	go func() {
		defer s.users.Done()
		defer func() {
			if p := recover(); p != nil { // a length that no memory has, in what is not the server's protocol
				done <- errNonsense
			}
		}()
		done <- operation(ctx)
	}()
	select {
	case err := <-done:
		return s.fault(ctx, err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter counts one more operation, unless the store is closed.
func (s *Store) enter() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.closed {
		s.users.Add(1)
	}
	return !s.closed
}

func (s *Store) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// transaction does commands together, or none. Its error is that of the first command that was refused, not that the
// others were therefore.
func (s *Store) transaction(ctx context.Context, commands func(tx redis.Pipeliner)) error {
	done, err := s.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		commands(tx)
		return nil
	})
	for _, c := range done {
		if own := c.Err(); own != nil && !redis.IsExecAbortError(own) {
			return own
		}
	}
	return err
}

// again makes an attempt, and another where the server had closed the connection: the pool may hold as many of those as
// it keeps idle. Every operation may be made twice.
func (s *Store) again(ctx context.Context, attempt func() error) error {
	err := attempt()
	for n := 0; n < idle && gone(err) && ctx.Err() == nil && !s.isClosed(); n++ {
		err = attempt()
	}
	return err
}

// gone tells whether an attempt found its connection closed.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

var errNonsense = errors.New("not an answer of Redis")

// fault is the error of an operation for its caller.
func (s *Store) fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	switch {
	case errors.Is(err, budget.ErrNotFound) || errors.Is(err, redis.Nil):
		return budget.ErrNotFound
	case s.isClosed():
		return budget.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) { // the connection may have noticed it first
		return context.DeadlineExceeded
	}
	return fault.New(fault.Unavailable, "The result store at %s %s.", s.address, s.reason(err))
}

// reason says what is wrong, with nothing in it that the server wrote but a code.
func (s *Store) reason(err error) string {
	var said redis.Error
	var dial *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &said):
		return refusal(said.Error())
	case certificate(err) != "":
		return "cannot be trusted: " + certificate(err)
	case errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("did not answer within %v", s.o.Timeout)
	case errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Sprintf("is busy: no connection was free within %v", s.o.Timeout)
	case errors.As(err, &dial) && dial.Op == "dial":
		return "cannot be reached: " + dial.Err.Error()
	case gone(err):
		return "closed the connection"
	}
	return "does not answer as Redis does: is another server there, or does it want TLS (rediss://)?"
}

// certificate says why a server's certificate is not accepted.
func certificate(err error) string {
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

// refusal explains an error that the server answered.
func refusal(said string) string {
	code, rest, _ := strings.Cut(said, " ")
	switch {
	case code == "NOAUTH" || code == "WRONGPASS" || strings.HasPrefix(rest, "invalid password") || strings.HasPrefix(rest, "AUTH "),
		strings.HasPrefix(rest, "Protocol error: unauthenticated"): // to a command with many arguments
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
