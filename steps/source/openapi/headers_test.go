package openapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestReservedHeaders: headers that the call, the connection or the configuration sets are not arguments, required or not.
func TestReservedHeaders(t *testing.T) {
	t.Parallel()
	names := []string{"Content-Length", "accept-encoding", "Transfer-Encoding", "Host", "Connection", "Keep-Alive", "Expect", "TE",
		"Trailer", "Upgrade",
		"Proxy-Authorization", "Accept", "Content-Type", "Authorization", "x-tenant", "a header", "X-Trace"}
	var parameters []string
	for _, name := range names {
		parameters = append(parameters, `{"name":"`+name+`","in":"header","required":true,"schema":{"type":"string"}}`)
	}
	parameters = append(parameters, `{"name":"Host","in":"query","required":true,"schema":{"type":"string"}}`)
	d := mustLoad(t, []byte(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{"/things":{"get":{"parameters":[`+
		strings.Join(parameters, ",")+
		`],"responses":{"200":{"description":"ok"}}}}}}`), &loadOptions{source: "api", headers: map[string]bool{"X-Tenant": true}})
	var required []string
	for _, name := range gjson.GetBytes(d.operations[0].input, "required").Array() {
		required = append(required, name.Str)
	}
	slices.Sort(required)
	if !slices.Equal(required, []string{"Host", "X-Trace"}) {
		t.Errorf("got required arguments %q, want Host and X-Trace", required)
	}
	if len(d.warnings) != 1 || !strings.Contains(d.warnings[0].what, "a header") {
		t.Errorf("got warnings %+v, want one of the invalid header", d.warnings)
	}
}
