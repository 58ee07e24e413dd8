package steps_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

func TestReason(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"code":"x","message":"the vault is closed"}}`: "the vault is closed",
		`{"error":"no such item","message":" not found \n"}`:     "not found",
		`{"error":{"message":7},"message":null}`:                 "",
		`{"error":"no such item","message":{}}`:                  "no such item",
		`{"message":"  ","error":{"message":"","other":"x"}}`:    "",
		`{"title":"Bad","detail":"no"}`:                          "",
		`"no"`:                                                   "", `[{"message":"no"}]`: "", `null`: "", ``: "", `{`: "",
	} {
		if got := steps.Reason([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	if got := steps.Reason([]byte(`{"message":"` + strings.Repeat("é", 1000) + `"}`)); len(got) > 510 || !strings.HasPrefix(got, "éé") {
		t.Errorf("got a reason of %d bytes, want a short one", len(got))
	}
}
