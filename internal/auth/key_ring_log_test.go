package auth_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
)

// TestTheLogOfARing: the log says once that keys cannot be loaded, and once that they are available again, however many callers come
// meanwhile.
func TestTheLogOfARing(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s := &keyServer{keys: jwks(rsaPair.jwk(nil)), err: errors.New("connection refused")}
	synctest.Test(t, func(t *testing.T) {
		known := table(t, bubbleIssuer, "", func(o *auth.Options) {
			o.Client, o.Tokens = &http.Client{Transport: s}, []auth.Token{{Name: "ci", SHA256: hashOf("secret")}}
			log.hears(o)
		})
		defer known.Close()
		all := func() {
			for range 20 {
				for _, token := range []string{"secret", "junk", rsaPair.plain(bubbleIssuer), ecPair.plain(bubbleIssuer)} {
					_, _ = known.Verify(t.Context(), token)
				}
				time.Sleep(fetchApart)
			}
		}
		for i, away := range []error{errors.New("connection refused"), nil, errors.New("connection refused"), nil} {
			s.set(func(s *keyServer) { s.err = away })
			all()
			errs, warnings, news := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "level=WARN"),
				strings.Count(log.String(), "level=INFO")
			if want := [][3]int{{1, 0, 0}, {1, 0, 1}, {1, 1, 1}, {1, 1, 2}}[i]; [3]int{errs, warnings, news} != want {
				t.Errorf("%d. %d errors, %d warnings, %d news, want %v:\n%s", i, errs, warnings, news, want, log.String())
			}
		}
	})
}

// TestAPanicOfALoad: a panic ends the load, and nothing else.
func TestAPanicOfALoad(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	var log logBuffer
	bubble(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != "" {
			t.Fatal(code)
		}
		s.set(func(s *keyServer) { s.panics = true })
		for range 5 {
			time.Sleep(fetchApart)
			if code := check(ecPair); code != fault.Unavailable {
				t.Error("an unknown key:", code)
			}
			if code := check(rsaPair); code != "" {
				t.Error("a known key:", code)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "the parser is at its end") ||
			!strings.Contains(log.String(), "key_ring_test.go") {
			t.Errorf("%d errors are logged:\n%s", n, log.String())
		}
		s.set(func(s *keyServer) { s.panics, s.keys = false, jwks(ecPair.jwk(nil)) })
		time.Sleep(fetchApart)
		if code := check(ecPair); code != "" {
			t.Error("once it is whole:", code)
		}
	}, log.hears)
}

// logBuffer is a log that a test reads.
type logBuffer struct{ syncbuf.Buffer }

// hears sets the log in a table's options.
func (l *logBuffer) hears(o *auth.Options) { o.Log = slog.New(slog.NewTextHandler(l, nil)) }
