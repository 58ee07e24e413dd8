package auth_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
)

// keyServer is an issuer's key server in a bubble of fake time, which cannot contain sockets.
type keyServer struct {
	mu       sync.Mutex
	keys     string
	err      error
	takes    time.Duration
	endpoint string // path of the keys in the metadata; "": /keys
	panics   bool
	fetched  int
}

const bubbleIssuer = "https://id.example.com"

func (s *keyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("the parser is at its end")
	}
	body := s.keys
	if strings.Contains(r.URL.Path, "/.well-known/") {
		body = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, bubbleIssuer, cmp.Or(s.endpoint, bubbleIssuer+"/keys"))
	} else {
		s.fetched++
	}
	takes, err := s.takes, s.err
	if at := r.URL.String(); s.endpoint != "" && body == s.keys && at != s.endpoint {
		err = errors.New("gone")
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (s *keyServer) set(change func(*keyServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *keyServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetched
}

// withKeyServer runs a test in fake time with a table whose keys come from a key server. check verifies a token of a key, and returns the
// error's code.
func withKeyServer(t *testing.T, s *keyServer, test func(t *testing.T, known *auth.Table, check func(p *testKey) fault.Code),
	change ...func(*auth.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		known := table(t, bubbleIssuer, "", append(change, func(o *auth.Options) { o.Client = &http.Client{Transport: s} })...)
		defer known.Close()
		test(t, known, func(p *testKey) fault.Code {
			_, err := known.Verify(t.Context(), p.plain(bubbleIssuer))
			return fault.CodeOf(err)
		})
	})
}

// TestClockJumps gives the table a clock other than that of the fetches.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil))
	var clock atomic.Int64
	known := table(t, s.URL, "", func(o *auth.Options) { o.Now = func() time.Time { return now.Add(time.Duration(clock.Load())) } })
	token := rsaPair.plain(s.URL)
	for _, jump := range []struct {
		by       time.Duration
		accepted bool
	}{{0, true}, {-time.Hour, false}, {0, true}, {59 * time.Minute, true}, {2 * time.Hour, false}, {24 * 365 * time.Hour, false}, {0, true}} {
		clock.Store(int64(jump.by))
		if _, err := known.Verify(t.Context(), token); (err == nil) != jump.accepted {
			t.Errorf("clock at %v: %v, want accepted %t", jump.by, inner(err), jump.accepted)
		}
	}
}
