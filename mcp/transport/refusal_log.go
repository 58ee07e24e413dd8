package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// remote is where a request came from.
type remote struct {
	address   string   // address and port of the other end of the connection
	forwarded []string // X-Forwarded-For headers
}

// maxForwarded bounds the logged forwarded addresses.
const maxForwarded = 5

// forwardedFor lists the addresses in X-Forwarded-For, the nearest last. Any client can set that header, so anything but an
// address becomes "?".
func (s *remote) forwardedFor() string {
	var all []string
	for _, header := range slices.Backward(s.forwarded) {
		for header != "" && len(all) < maxForwarded {
			at := strings.LastIndexByte(header, ',')
			all = append(all, plainAddress(header[at+1:]))
			header = header[:max(at, 0)]
		}
	}
	slices.Reverse(all)
	return strings.Join(all, ", ")
}

// plainAddress returns an address without its port and zone, as it is logged; "?" for a text that is not an address.
func plainAddress(text string) string {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return "?"
	}
	return address.WithZone("").String()
}

// attrs returns log attributes for the origin of a request.
func (s *remote) attrs() []any {
	attrs := []any{"remote", plainAddress(s.address)}
	if forwarded := s.forwardedFor(); forwarded != "" {
		attrs = append(attrs, "forwarded", forwarded)
	}
	return attrs
}

// name tells apart senders whose caller is not known: their address, and the nearest address that was forwarded.
func (s *remote) name() string {
	forwarded := s.forwardedFor()
	return plainAddress(s.address) + " " + forwarded[strings.LastIndexByte(forwarded, ' ')+1:]
}

// logRefused counts and logs a refused request of a known caller.
func (s *Server) logRefused(from *identity, reason string) {
	s.logRefusedCaller(context.Background(), from.ID, &from.remote, reason)
}

// logRefusedCaller is like logRefused; from nil: the request did not come over HTTP.
func (s *Server) logRefusedCaller(ctx context.Context, caller string, from *remote, reason string) {
	s.opts().Refused(reason)
	s.logLimited(ctx, logKey{logRefusal, reason, caller}, "refused", func() []any {
		attrs := []any{"reason", reason, "caller", caller}
		if from != nil {
			attrs = append(attrs, from.attrs()...)
		}
		return attrs
	})
}

// logRejected counts and logs a refused request of an unidentified sender.
func (s *Server) logRejected(r *http.Request, reason string, why *fault.Error) {
	s.opts().Refused(reason)
	from := remote{r.RemoteAddr, r.Header["X-Forwarded-For"]}
	s.logLimited(r.Context(), logKey{logUnidentified, reason, from.name()}, "refused", func() []any {
		return append([]any{"reason", reason}, append(from.attrs(), "error", why.Message)...)
	})
}

// callerError is implemented by errors of Callers.Verify that know whose token was refused, for logs. CallerID is "" if that is
// unknown.
type callerError interface {
	error
	CallerID() string
}

// logRefusedToken counts and logs a token that was refused, and why.
func (s *Server) logRefusedToken(ctx context.Context, from *remote, reason string, err error) {
	s.opts().Refused(reason)
	s.logLimited(ctx, logKey{logToken, reason, from.name()}, "a token was refused", func() []any {
		attrs := []any{"reason", reason}
		var caller callerError
		if errors.As(err, &caller) && caller.CallerID() != "" {
			attrs = append(attrs, "caller", caller.CallerID())
		}
		why := err
		if f, ok := fault.As(err); ok && f.Err != nil {
			why = f.Err // contains nothing of the token
		}
		return append(append(attrs, from.attrs()...), "error", why)
	})
}

// logLimited logs a refusal: at info at most once per key within logEvery, else at debug, because any client can send many requests
// that are refused. The attribute left_out is the number of refusals that were not logged at info since the last such line.
func (s *Server) logLimited(ctx context.Context, key logKey, message string, attrs func() []any) {
	level := slog.LevelDebug
	suppressed, due := s.logs.due(key)
	if due {
		level = slog.LevelInfo
	}
	log := s.opts().Log
	if !log.Enabled(ctx, level) {
		return
	}
	all := attrs()
	if suppressed > 0 {
		all = append(all, "left_out", suppressed)
	}
	log.Log(ctx, level, message, all...)
}
