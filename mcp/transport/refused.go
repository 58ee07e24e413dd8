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

// sender is where a request came from.
type sender struct {
	remote    string   // the address of the connection's other end, with its port
	forwarded []string // what the request says of whom it was forwarded for
}

// maxForwarded is how many addresses are told of those that a request was forwarded for.
const maxForwarded = 5

// addresses are those that the request says it was forwarded for, the nearest last. Anybody may write the header: what is no
// address is told as "?", and nothing of it.
func (s *sender) addresses() string {
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

// attrs are what a log says of a sender.
func (s *sender) attrs() []any {
	attrs := []any{"remote", plainAddress(s.remote)}
	if forwarded := s.addresses(); forwarded != "" {
		attrs = append(attrs, "forwarded", forwarded)
	}
	return attrs
}

// name is what tells a sender who has no token from others.
func (s *sender) name() string {
	forwarded := s.addresses()
	return plainAddress(s.remote) + " " + forwarded[strings.LastIndexByte(forwarded, ' ')+1:]
}

// refused logs that a request of a known caller is refused.
func (s *Server) refused(from *identity, reason string) {
	s.refusedCaller(context.Background(), from.ID, &from.sender, reason)
}

// refusedCaller is as refused; from nil: it did not come over HTTP.
func (s *Server) refusedCaller(ctx context.Context, caller string, from *sender, reason string) {
	s.o().Refused(reason)
	s.tell(ctx, occasion{ofRefusal, reason, caller}, "refused", func() []any {
		attrs := []any{"reason", reason, "caller", caller}
		if from != nil {
			attrs = append(attrs, from.attrs()...)
		}
		return attrs
	})
}

// turnedAway logs the refusal of a request whose sender was not identified.
func (s *Server) turnedAway(r *http.Request, reason string, why *fault.Error) {
	s.o().Refused(reason)
	from := sender{r.RemoteAddr, r.Header["X-Forwarded-For"]}
	s.tell(r.Context(), occasion{ofStranger, reason, from.name()}, "refused", func() []any {
		return append([]any{"reason", reason}, append(from.attrs(), "error", why.Message)...)
	})
}

// whose is what an error of Callers.Verify may hold: the id of the caller whose token was refused, for logs; "": not known.
type whose interface {
	error
	Whose() string
}

// refusedToken tells of a token that gives no rights, and why.
func (s *Server) refusedToken(ctx context.Context, from *sender, reason string, err error) {
	s.o().Refused(reason)
	s.tell(ctx, occasion{ofToken, reason, from.name()}, "a token was refused", func() []any {
		attrs := []any{"reason", reason}
		var own whose
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

// tell logs a refusal. Anybody may have many requests refused: at info it is told now and then, with how many were left out.
func (s *Server) tell(ctx context.Context, one occasion, message string, attrs func() []any) {
	level := slog.LevelDebug
	left, due := s.occasions.dueAfter(one)
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
