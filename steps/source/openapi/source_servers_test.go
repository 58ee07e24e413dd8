package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func shownURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

// guardedDocument has an operation that needs a key and one that needs none, each with its own server.
func guardedDocument(key, open string) string {
	return `{"openapi":"3.0.3","info":{"title":"Pets","version":"2"},"security":[{"key":[]}],
		"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}}},
		"paths":{"/pets":{"get":{"servers":[{"url":"` + key + `"}],"responses":{}}},"/news":{"get":{"security":[],"servers":[{"url":"` +
		open + `"}],"responses":{}}}}}`
}

// TestCredentialsNeedHost: credentials for which the configuration names no host stop the start, and the message names the host that the
// document gives. If some operations have a trusted host, only those become functions.
func TestCredentialsNeedHost(t *testing.T) {
	t.Parallel()
	key := map[string]Credential{"key": {Value: keyValue}}
	for _, test := range []struct {
		name      string
		o         Options
		functions string
		message   string // the fault at /baseUrl; "": none
	}{
		{"no credentials", Options{}, "pets.news.get pets.pet.list", ""},
		{"a key", Options{Auth: key}, "", "set baseUrl (to https://api.example.com, if that is correct)"},
		{"a header", Options{Headers: map[string]string{"x-tenant-key": keyValue}}, "",
			"set baseUrl (to https://api.example.com, if that is correct)"},
		{"a harmless header", Options{Headers: map[string]string{"accept-language": "de"}}, "pets.news.get pets.pet.list", ""},
		{"a key and a base", Options{Auth: key, BaseURL: "https://api.example.com"}, "pets.news.get pets.pet.list", ""},
	} {
		test.o.Name, test.o.Spec, test.o.Client = "pets",
			writeDocument(t, guardedDocument("https://api.example.com/v1", "https://news.example.com")), mockTransport{http.NotFoundHandler()}
		s, err := New(&test.o)
		if test.message != "" {
			if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || f.At != "/baseUrl" || !strings.Contains(f.Message, test.message) ||
				strings.Contains(f.Message, keyValue) {
				t.Errorf("%s: %v, want bad_request at /baseUrl with %q, without the key", test.name, err, test.message)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := namesOf(s); got != test.functions {
			t.Errorf("%s: got functions %s, want %s", test.name, got, test.functions)
		}
		_ = s.Close()
	}
}

func namesOf(s *Source) string {
	var names []string
	for _, fn := range s.Functions() {
		names = append(names, fn.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestDocumentAtURLRegainsCredentials: the configuration names the origin of the document, so it may receive credentials; no other may.
func TestDocumentAtURLRegainsCredentials(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key       string
		state     steps.State
		functions string
	}{
		{"/v1", steps.StateReady, "pets.news.get pets.pet.list"},
		{"https://docs.example.com/v1", steps.StateReady, "pets.news.get pets.pet.list"},
		{"https://evil.example.com/v1", steps.StateFailed, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := publish(t, Options{Auth: map[string]Credential{"key": {Value: keyValue}}},
				respond(200, guardedDocument(test.key, "https://news.example.com")))
			defer s.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			status := s.Status()
			if status.State != test.state || namesOf(s) != test.functions || (status.Error != nil) != (test.state == steps.StateFailed) {
				t.Errorf("%s: got %+v with functions %s, want %s with %s", test.key, status, namesOf(s), test.state, test.functions)
			}
		})
	}
}

// TestDocumentHostWarning: if some operations have a trusted host for their credentials, the others are left out with a warning.
func TestDocumentHostWarning(t *testing.T) {
	t.Parallel()
	text := strings.Replace(guardedDocument("/v1", "https://news.example.com"), `"/news"`,
		`"/uploads":{"get":{"servers":[{"url":"https://uploads.example.com"}],"responses":{}}},"/news"`, 1)
	synctest.Test(t, func(t *testing.T) {
		var warned []string
		s, _ := publish(t, Options{Auth: map[string]Credential{"key": {Value: keyValue}},
			Warn: func(f *fault.Error) { warned = append(warned, f.Message) }}, respond(200, text))
		defer s.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := namesOf(s); got != "pets.news.get pets.pet.list" {
			t.Errorf("got functions %s, want pets.news.get pets.pet.list", got)
		}
		want := "GET /uploads: only the document says that its credentials go to uploads.example.com: set baseUrl"
		if len(warned) != 1 || !strings.Contains(warned[0], want) {
			t.Errorf("got warnings %q, want one", warned)
		}
	})
}
