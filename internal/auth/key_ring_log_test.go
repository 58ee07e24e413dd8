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

// TestKeyringLog: the log says once that keys cannot be loaded, and once that they are available again, however many callers come
// meanwhile.
func TestKeyringLog(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s := &keyServer{keys: jwks(rsaPair.jwk(nil)), err: errors.New("connection refused")}
	synctest.Test(t, func(t *testing.T) {
		known := table(t, bubbleIssuer, "", func(o *auth.Options) {
			o.Client, o.Tokens = &http.Client{Transport: s}, []auth.Token{{Name: "ci", SHA256: hashOf("secret")}}
			log.setIn(o)
		})
		defer known.Close()
		verifyAll := func() {
			for range 20 {
				for _, token := range []string{"secret", "junk", rsaPair.plain(bubbleIssuer), ecPair.plain(bubbleIssuer)} {
					_, _ = known.Verify(t.Context(), token)
				}
				time.Sleep(minFetchInterval)
			}
		}
		for i, err := range []error{errors.New("connection refused"), nil, errors.New("connection refused"), nil} {
			s.set(func(s *keyServer) { s.err = err })
			verifyAll()
			errs, warnings, infos := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "level=WARN"),
				strings.Count(log.String(), "level=INFO")
			if want := [][3]int{{1, 0, 0}, {1, 0, 1}, {1, 1, 1}, {1, 1, 2}}[i]; [3]int{errs, warnings, infos} != want {
				t.Errorf("phase %d: %d errors, %d warnings, %d infos, want %v:\n%s", i, errs, warnings, infos, want, log.String())
			}
		}
	})
}

// TestLoadPanics: a panic ends the load, and nothing else.
func TestLoadPanics(t *testing.T) {
	t.Parallel()
	s := &keyServer{keys: jwks(rsaPair.jwk(nil))}
	var log logBuffer
	withKeyServer(t, s, func(t *testing.T, _ *auth.Table, check func(*testKey) fault.Code) {
		if code := check(rsaPair); code != "" {
			t.Fatalf("a known key before the panic: got %s, want no error", code)
		}
		s.set(func(s *keyServer) { s.panics = true })
		for range 5 {
			time.Sleep(minFetchInterval)
			if code := check(ecPair); code != fault.Unavailable {
				t.Errorf("an unknown key after the panic: got %q, want unavailable", code)
			}
			if code := check(rsaPair); code != "" {
				t.Errorf("a known key after the panic: got %s, want no error", code)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "the parser is at its end") ||
			!strings.Contains(log.String(), "key_ring_test.go") {
			t.Errorf("%d errors logged, want 1 with the panic and its stack:\n%s", n, log.String())
		}
		s.set(func(s *keyServer) { s.panics, s.keys = false, jwks(ecPair.jwk(nil)) })
		time.Sleep(minFetchInterval)
		if code := check(ecPair); code != "" {
			t.Errorf("a new key after the panics ended: got %s, want no error", code)
		}
	}, log.setIn)
}

// logBuffer is a log that a test reads.
type logBuffer struct{ syncbuf.Buffer }

// setIn sets the log in a table's options.
func (l *logBuffer) setIn(o *auth.Options) { o.Log = slog.New(slog.NewTextHandler(l, nil)) }
