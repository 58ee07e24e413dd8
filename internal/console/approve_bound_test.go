package console_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
)

// TestLookBackIsBounded: for the last approved run, runs without writes are not read, and of the others no more than 2,000 calls.
func TestLookBackIsBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	before := func(function string) string {
		for range 2 {
			s.run(t, "token:ann", `{"name":"stock","steps":[{"fn":"`+function+`","forEach":"1..999","args":{"k":"$item"}}]}`)
		}
		run, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "new"))
		_, page := ann.get("runs/" + run + "/approve")
		return page
	}
	first, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "old"))
	_, page := ann.get("runs/" + first + "/approve")
	_, page = ann.send(page, "runs/"+first+"/approve", url.Values{"decision": {"approve-all"}})
	ann.send(page, "runs/"+first+"/resume", nil)
	wantText(t, before("shop.get"), "Approved last time", first)
	wantText(t, before("shop.add"), "!Approved last time")
}
