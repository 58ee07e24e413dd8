package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestResultsOfFormerRights: a caller can fetch results that it stored with the same or fewer rights, with another of its tokens or in
// another version of MCP. If it has fewer rights now than when it stored a result, the result's token counts as expired.
func TestResultsOfFormerRights(t *testing.T) {
	t.Parallel()
	all := map[string]steps.Rights{
		"read": {Tier: steps.TierRead}, "default": {}, "write": {Tier: steps.TierReadWrite}, "admin": {Tier: steps.TierAdmin},
		"some": {Tier: steps.TierReadWrite, Functions: "shop.*"}, "other": {Tier: steps.TierReadWrite, Functions: "shop.echo shop.item.*"},
	}
	mayHave := map[string]string{
		"read": "read default", "default": "read default", "write": "read default write some other",
		"admin": "read default write admin some other", "some": "some", "other": "other",
	}
	s := serve(t, nil)
	callers := mcptest.Callers{}
	for token, r := range all {
		callers[token] = &steps.Caller{ID: "jwt:one", Rights: r}
	}
	callers["eve"] = &steps.Caller{ID: "jwt:eve", Rights: all["admin"]}
	url := s.serveAs(t, &transport.Access{Callers: callers})
	tokens := map[string]string{}
	for storedWith := range all {
		text, _ := mcptest.Ask(t, connectAs(t, url, storedWith, statefulVersion), "chain",
			`{"lite":true,"budget":{"maxTotalTokens":300},"steps":[{"fn":"shop.echo","args":{"text":"`+strings.Repeat("many words ", 500)+`"}}]}`)
		if tokens[storedWith] = gjson.Get(text, "continuation_token").Str; tokens[storedWith] == "" {
			t.Fatalf("%s: the answer lacks a token: %s", storedWith, text)
		}
	}
	tries := 0
	for fetchedWith := range callers {
		for _, version := range []string{statefulVersion, statelessVersion} {
			client := connectAs(t, url, fetchedWith, version)
			for storedWith, token := range tokens {
				tries++
				text, failed := mcptest.Ask(t, client, "chain", fmt.Sprintf(`{"continuation_token":%q,"mode":"query","query":"$result.said","budget":{"maxTotalTokens":5000}}`, token))
				want := strings.Contains(" "+mayHave[fetchedWith]+" ", " "+storedWith+" ")
				if want && failed || !want && gjson.Get(text, "error.code").Str != "token_expired" {
					t.Errorf("stored with %s, fetched with %s in %s: want %t: %.300s", storedWith, fetchedWith, version, want, text)
				}
			}
		}
	}
	if tries != 84 {
		t.Errorf("%d tries, want 84", tries)
	}
}

// TestResultsAfterAChangeOfRights: a caller whose rights have changed can fetch a result, with the same token, only as long as its rights
// cover those that it stored the result with.
func TestResultsAfterAChangeOfRights(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	access := func(r steps.Rights) *transport.Access {
		return &transport.Access{Callers: mcptest.Callers{"ann": {ID: "token:ann", Rights: r}}}
	}
	url := s.serveAs(t, access(steps.Rights{Tier: steps.TierReadWrite}))
	client := connectAs(t, url, "ann", statelessVersion)
	text, _ := mcptest.Ask(t, client, "chain", `{"lite":true,"budget":{"maxTotalTokens":300},"steps":[{"fn":"shop.echo","args":{"text":"`+strings.Repeat("many words ", 500)+`"}}]}`)
	fetch := `{"continuation_token":"` + gjson.Get(text, "continuation_token").Str + `","mode":"full","budget":{"maxTotalTokens":5000}}`
	for i, change := range []struct {
		to   steps.Rights
		want string
	}{
		{steps.Rights{Tier: steps.TierReadWrite}, ""},
		{steps.Rights{Tier: steps.TierAdmin}, ""},
		{steps.Rights{Tier: steps.TierRead}, "token_expired"},
		{steps.Rights{Tier: steps.TierReadWrite, Functions: "shop.*"}, "token_expired"},
		{steps.Rights{Tier: steps.TierReadWrite}, ""},
	} {
		s.SetAccess(t, access(change.to))
		for _, tool := range []string{"chain", "search", "info"} {
			if text, _ := mcptest.Ask(t, client, tool, fetch); gjson.Get(text, "error.code").Str != change.want {
				t.Errorf("change %d, fetch by %s: want code %q: %.300s", i, tool, change.want, text)
			}
		}
	}
}
