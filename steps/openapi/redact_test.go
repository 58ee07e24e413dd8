package openapi

import (
	"net/http"
	"net/url"
	"testing"
)

func TestRedaction(t *testing.T) {
	t.Parallel()
	redact, redactResult := redaction([]byte(`{"type":"object","properties":{"user":{"type":"string"},"new_password":{"type":"string"},"pin":{"type":"string","format":"password"},"max_tokens":{"type":"integer"},"pageToken":{"type":"string"},"secret_name":{"type":"string"}}}`))
	args := []byte(`{"user":"me","new_password":"hunter2-hunter2","pin":"123456","max_tokens":1.10,"pageToken":"cursor-1","secret_name":"production"}`)
	if got, want := string(redact(args)), `{"user":"me","new_password":"[redacted]","pin":"[redacted]","max_tokens":1.10,"pageToken":"cursor-1","secret_name":"production"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := string(redactResult(args, []byte(`{"echo":"hunter2-hunter2","n":1.10,"pin":123456,"environment":"production"}`))), `{"echo":"[redacted]","n":1.10,"pin":"[redacted]","environment":"production"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if redact, redactResult := redaction([]byte(`{"type":"object","properties":{"user":{"type":"string"}}}`)); redact != nil || redactResult != nil {
		t.Error("there is nothing to hide")
	}
}

func TestCookiesJoinTheConfiguredOnes(t *testing.T) {
	t.Parallel()
	c := &call{op: &operation{method: "GET"}, base: &url.URL{Scheme: "http", Host: "h"}}
	r := &outgoing{path: "/a", header: http.Header{"Cookie": {"session=configured"}}, cookies: []string{"lang=de"}}
	if got := c.request(t.Context(), r).Header.Get("Cookie"); got != "session=configured; lang=de" {
		t.Errorf("Cookie: %s", got)
	}
}
