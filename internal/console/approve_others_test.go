package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

const onePut = `{"name":"guarded","steps":[{"fn":"shop.put","args":{"k":1}}]}`

// TestApproveForOthers: who decides for another caller sees its runs and decides about their calls, and about nothing else: not the runs of
// others, not what a resume or an undo does, and not calls of functions that the viewer may not use.
func TestApproveForOthers(t *testing.T) {
	t.Parallel()
	lead, limited, looks := actor("token:lead"), actor("token:limited"), person("token:looks")
	for _, v := range []*console.Viewer{lead, limited, looks} {
		v.DecidesFor = "token:other\ntoken:agent"
	}
	limited.Rights = steps.Rights{Tier: steps.TierRead}
	s := newShop(t, map[string]*console.Viewer{"lead": lead, "limited": limited, "looks": looks}, nil)
	s.fails[`shop.send {"k":9}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "9 is sold out"}
	run, _ := s.run(t, "token:agent", onePut)
	eves, _ := s.run(t, "token:eve", onePut)
	done, _ := s.run(t, "token:agent", `{"name":"done","steps":[{"fn":"shop.add","args":{"k":7}}]}`)
	failed, _ := s.run(t, "token:agent", `{"name":"broken","steps":[{"fn":"shop.add","args":{"k":8}},{"fn":"shop.send","args":{"k":9}}]}`)
	s.wantCalls(t, `shop.add {"k":7}`, `shop.add {"k":8}`, `shop.send {"k":9}`)
	b := s.browser(t, "lead")
	_, page := b.get("approvals")
	wantText(t, page, run, "token:agent", "1 × <code>shop.put</code>", "!"+eves, "!token:eve")
	for path, shown := range map[string]bool{"": false, "?caller=token:agent": true, "?caller=token:eve": false} {
		_, page := b.get(path)
		if shown {
			wantText(t, page, done, failed, run, "!"+eves)
		} else {
			wantText(t, page, "!"+done, "!"+run, "!"+eves)
		}
	}
	for _, id := range []string{done, failed} {
		_, page = b.get("runs/" + id)
		wantText(t, page, "shop.add", "for token:agent", "!/undo\"", "!/fix\"", "!>Resume<")
		for _, path := range []string{"/fix", "/undo"} {
			if status, page := b.get("runs/" + id + path); status != fault.TokenExpired.HTTP() {
				t.Errorf("%s of another's run: status %d: %s", path, status, page)
			}
		}
		_, form := b.get("playground")
		for _, path := range []string{"/fix", "/undo", "/resume"} {
			if status, page := b.send(form, "runs/"+id+path, url.Values{"do": {"resume"}, "text": {onePut}}); status != fault.TokenExpired.HTTP() {
				t.Errorf("%s of another's run: status %d: %s", path, status, page)
			}
		}
	}
	s.wantCalls(t)

	path := "runs/" + run + "/approve"
	_, page = s.browser(t, "limited").get(path)
	wantText(t, page, "0 calls", "1 more is of a function that you may not use: others decide about it", "!shop.put")
	_, page = s.browser(t, "looks").get(path)
	wantText(t, page, "shop.put", "You may look, not decide")
	if status, page := s.browser(t, "looks").send(page, path, url.Values{"decision": {"approve-all"}}); status != fault.Denied.HTTP() {
		t.Errorf("who only looks decides: status %d: %s", status, page)
	}
	_, page = b.get(path)
	digest := page
	if status, page := b.send(digest, "runs/"+eves+"/approve", url.Values{"decision": {"approve-all"}}); status != fault.TokenExpired.HTTP() {
		t.Errorf("a decision for a caller that is not named: status %d: %s", status, page)
	}
	if status, page := b.send(digest, path, url.Values{"decision": {"approve-all"}, "reason": {"it is fine"}}); status != http.StatusOK {
		t.Fatalf("a decision for another caller: status %d: %s", status, page)
	}
	_, page = b.get("runs/" + run)
	wantText(t, page, "1 call by token:lead at 0", "it is fine", "a resume does, by the run's caller", "!>Resume<")
	for id, want := range map[string]journal.Status{run: journal.MayContinue, eves: journal.Waiting, done: journal.OK, failed: journal.Failed} {
		if got := s.status(t, id); got != want {
			t.Errorf("the run %s is %s, want %s", id, got, want)
		}
	}
	s.wantCalls(t)
}
