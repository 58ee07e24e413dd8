package http_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func TestRedirects(t *testing.T) {
	t.Parallel()
	var other, server *httptest.Server
	var s *httpsource.Source
	var mu sync.Mutex
	seen := map[string]http.Header{}
	record := func(where string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[where] = r.Header.Clone()
	}
	redirects := map[string]string{
		"/same": "/end?token=kept", "/away": "OTHER/back", "/unlisted": "https://unlisted.example/?token=topsecret",
		"/metadata": "http://169.254.169.254/latest/", "/file": "file:///etc/passwd", "/user": "http://me:topsecret@HOST/end",
		"/malformed": "http://[topsecret]:x/?token=topsecret", "/carry": "307 OTHER/carried", "/carrysee": "303 OTHER/seen",
		"/carryon": "308 /carry", "/temporary": "307 /echo", "/see": "303 /echo",
	}
	other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record("other"+r.URL.Path, r)
		http.Redirect(w, r, server.URL+"/end", http.StatusFound)
	}))
	t.Cleanup(other.Close)
	s, server = serve(t, httpsource.Options{Allow: []string{strings.TrimPrefix(other.URL, "http://")}},
		func(w http.ResponseWriter, r *http.Request) {
			record("first"+r.URL.Path, r)
			hops, hopping := strings.CutPrefix(r.URL.Path, "/hops/")
			switch to, status := redirects[r.URL.Path], http.StatusFound; {
			case hopping && hops != "0":
				n, _ := strconv.Atoi(hops)
				http.Redirect(w, r, "/hops/"+strconv.Itoa(n-1), status)
			case to != "":
				if code, location, coded := strings.Cut(to, " "); coded {
					status, _ = strconv.Atoi(code)
					to = location
				}
				w.Header().Set("Location", strings.NewReplacer("OTHER", other.URL, "HOST", r.Host).Replace(to))
				w.WriteHeader(status)
			case r.URL.Path == "/nowhere":
				w.WriteHeader(status)
			case r.URL.Path == "/echo":
				body, _ := io.ReadAll(r.Body)
				_, _ = io.WriteString(w, r.Method+" "+string(body))
			default:
				_, _ = io.WriteString(w, "end")
			}
		})
	tests := []struct {
		method, path string
		code         fault.Code
		body         string
	}{
		{"GET", "/same", "", "end"},
		{"GET", "/away", "", "end"},
		{"GET", "/hops/5", "", "end"},
		{"GET", "/hops/6", fault.LimitExceeded, ""},
		{"GET", "/hops/999999", fault.LimitExceeded, ""},
		{"GET", "/unlisted", fault.Denied, ""},
		{"GET", "/metadata", fault.Denied, ""},
		{"GET", "/file", fault.Denied, ""},
		{"GET", "/user", fault.Denied, ""},
		{"GET", "/nowhere", "", ""},
		{"GET", "/malformed", fault.FunctionFailed, ""},
		{"POST", "/carry", fault.Denied, ""},
		{"POST", "/carryon", fault.Denied, ""},
		{"GET", "/carry", "", "end"},
		{"POST", "/carrysee", "", "end"},
		{"POST", "/temporary", "", "POST {\"a\":1}"},
		{"POST", "/see", "", "GET "},
	}
	for _, test := range tests {
		args := `{"method":"` + test.method + `","url":"` + server.URL + test.path +
			`","headers":{"Authorization":"Bearer topsecret","X-Api-Key":"topsecret","Accept-Language":"de"}`
		if test.method == "POST" {
			args += `,"body":{"a":1}`
		}
		result, err := invoke(t.Context(), s, "http.request", args+"}")
		switch {
		case fault.CodeOf(err) != test.code:
			t.Errorf("%s: %v, want %q", test.path, err, test.code)
		case err == nil && gjson.GetBytes(result, "body").String() != test.body:
			t.Errorf("%s: got %s, want %q", test.path, result, test.body)
		case err != nil && strings.Contains(err.Error(), "topsecret"):
			t.Errorf("%s: the message shows a secret: %v", test.path, err)
		}
		mu.Lock()
		if end, stored := seen["first/end"], test.path == "/same"; end != nil {
			if got := end.Get("Authorization") != "" && end.Get("X-Api-Key") != ""; got != stored {
				t.Errorf("%s: credentials at the end of the redirects: %v, want %v", test.path, got, stored)
			}
		}
		delete(seen, "first/end")
		mu.Unlock()
	}
	if seen["other/seen"] == nil {
		t.Error("a redirect that drops the body was not followed")
	}
	away := seen["other/back"]
	if away.Get("Authorization") != "" || away.Get("X-Api-Key") != "" || away.Get("Referer") != "" || away.Get("Accept-Language") != "de" {
		t.Errorf("headers sent to another host: %v, want only Accept-Language", away)
	}
}

func TestRedirectFromHTTPSToHTTP(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent over plain HTTP") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer secure.Close()
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	s := open(t, &httpsource.Options{Allow: []string{host(plain), host(secure)}, Transport: secure.Client().Transport})
	if _, err := invoke(t.Context(), s, "http.get", `{"url":"`+secure.URL+`"}`); fault.CodeOf(err) != fault.Denied {
		t.Errorf("got %v, want denied", err)
	}
}

func TestCertificateIsVerified(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the request was sent to a server without a valid certificate")
	}))
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	s := open(t, &httpsource.Options{Allow: []string{secure.Listener.Addr().String()}})
	_, err := invoke(t.Context(), s, "http.get", `{"url":"`+secure.URL+`"}`)
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want unavailable and a mention of the certificate", err)
	}
}

// TestRedirectedWrites: a redirect that would turn a write into a read is refused, because nothing may have been written.
func TestRedirectedWrites(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/items/3" {
					http.Redirect(w, r, "/items/3/", status)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"by":"` + r.Method + `"}`))
			})
			_, err := invoke(t.Context(), s, "http.request", `{"method":"`+method+`","url":"`+server.URL+`/items/3"}`)
			refused := method != "GET" && method != "HEAD" && status < 303
			f, _ := fault.As(err)
			switch {
			case !refused && err != nil:
				t.Errorf("%s, %d: %v, want success", method, status, err)
			case refused && (f == nil || f.Code != fault.FunctionFailed || f.Outcome != fault.SentUnknown):
				t.Errorf("%s, %d: %v, want function_failed and sent_unknown", method, status, err)
			}
		}
	}
}
