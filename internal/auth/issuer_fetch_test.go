package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestFetchLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(s *authServer) http.HandlerFunc
		why    string
	}{
		"long": {func(*authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				for range 2 * maxKeysBytes / 1024 {
					if _, err := w.Write(make([]byte, 1024)); err != nil {
						return
					}
				}
			}
		}, "longer than"},
		"other host": {func(s *authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/more", http.StatusFound)
			}
		}, "another host"},
		"redirect loop": {func(*authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) }
		}, "too many redirects"},
		"error status": {func(*authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
		}, "418"},
		"truncated": {func(*authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("{"))
			}
		}, "broke off"},
		"no keys": {func(*authServer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) }
		}, "no keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAuthServer(t)
			s.answer("/more", jwks(rsaPair.jwk(nil)))
			s.handle("/keys", test.answer(s))
			_, err := table(t, s.URL, s.URL+"/keys?key=SECRET").Verify(t.Context(), rsaPair.plain(s.URL))
			if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(inner(err).Error(), test.why) {
				t.Errorf("%v: %v, want %q", err, inner(err), test.why)
			}
			if strings.Contains(inner(err).Error(), "SECRET") {
				t.Errorf("the error shows the query: %v", inner(err))
			}
		})
	}
	s := newAuthServer(t)
	s.answer("/more", jwks(rsaPair.jwk(nil)))
	s.handle("/keys", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/more", http.StatusFound) })
	if _, err := table(t, s.URL, s.URL+"/keys").Verify(t.Context(), rsaPair.plain(s.URL)); err != nil {
		t.Errorf("keys behind a redirect on the same host: got error %v, want none", inner(err))
	}
}
