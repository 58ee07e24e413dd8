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
	address   string   // of the connection's other end, with its port
	forwarded []string // headers that name whom the request was forwarded for
}

// maxForwarded bounds the logged addresses that a request was forwarded for.
const maxForwarded = 5

// forwardedFor lists the addresses that the request says it was forwarded for, the nearest last. Anybody may write the header:
// what is no address is listed as "?".
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

// plainAddress is an address, with a port or not, as it is logged.
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

// attrs are a log line's attributes of where a request came from.
func (s *remote) attrs() []any {
	attrs := []any{"remote", plainAddress(s.address)}
	if forwarded := s.forwardedFor(); forwarded != "" {
		attrs = append(attrs, "forwarded", forwarded)
	}
	return attrs
}

// name distinguishes senders without a token.
func (s *remote) name() string {
	forwarded := s.forwardedFor()
	return plainAddress(s.address) + " " + forwarded[strings.LastIndexByte(forwarded, ' ')+1:]
}

// logRefused counts and logs that a request of a known caller is refused.
func (s *Server) logRefused(from *identity, reason string) {
	s.logRefusedCaller(context.Background(), from.ID, &from.remote, reason)
}

// logRefusedCaller is like logRefused; from nil: the request did not come over HTTP.
func (s *Server) logRefusedCaller(ctx context.Context, caller string, from *remote, reason string) {
	s.o().Refused(reason)
	s.logNowAndThen(ctx, logKey{logRefusal, reason, caller}, "refused", func() []any {
		attrs := []any{"reason", reason, "caller", caller}
		if from != nil {
			attrs = append(attrs, from.attrs()...)
		}
		return attrs
	})
}

// logRejected counts and logs the refusal of a request whose sender was not identified.
func (s *Server) logRejected(r *http.Request, reason string, why *fault.Error) {
	s.o().Refused(reason)
	from := remote{r.RemoteAddr, r.Header["X-Forwarded-For"]}
	s.logNowAndThen(r.Context(), logKey{logUnidentified, reason, from.name()}, "refused", func() []any {
		return append([]any{"reason", reason}, append(from.attrs(), "error", why.Message)...)
	})
}

// callerError is implemented by errors of Callers.Verify that know, for logs, the id of the caller whose token was refused; "": not
// known.
type callerError interface {
	error
	Whose() string
}

// logRefusedToken counts and logs that a token gives no rights, and why.
func (s *Server) logRefusedToken(ctx context.Context, from *remote, reason string, err error) {
	s.o().Refused(reason)
	s.logNowAndThen(ctx, logKey{logToken, reason, from.name()}, "a token was refused", func() []any {
		attrs := []any{"reason", reason}
		var own callerError
		if errors.As(err, &own) && own.Whose() != "" {
			attrs = append(attrs, "caller", own.Whose())
		}
		why := err
		if f, ok := fault.As(err); ok && f.Err != nil {
			why = f.Err // which holds nothing of the token
		}
		return append(append(attrs, from.attrs()...), "error", why)
	})
}

// logNowAndThen logs a refusal at info, unless the same was logged a moment ago: anybody can send many requests that are refused. The
// next line says how many were left out.
func (s *Server) logNowAndThen(ctx context.Context, one logKey, message string, attrs func() []any) {
	level := slog.LevelDebug
	left, due := s.logs.due(one)
	if due {
		level = slog.LevelInfo
	}
	log := s.o().Log
	if !log.Enabled(ctx, level) {
		return
	}
	all := attrs()
	if left > 0 {
		all = append(all, "left_out", left)
	}
	log.Log(ctx, level, message, all...)
}
