package openapi

import (
	"net/http"
	"net/url"
	"testing"
)

func TestCookiesJoinTheConfiguredOnes(t *testing.T) {
	t.Parallel()
	c := &call{op: &operation{method: "GET"}, base: &url.URL{Scheme: "http", Host: "h"}}
	r := &requestBuilder{path: "/a", header: http.Header{"Cookie": {"session=configured"}}, cookies: []string{"lang=de"}}
	if got := c.request(t.Context(), r).Header.Get("Cookie"); got != "session=configured; lang=de" {
		t.Errorf("Cookie: %s", got)
	}
}
