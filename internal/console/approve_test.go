package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

const stock = `{"name":"stock","steps":[{"id":"each","fn":"shop.put","forEach":"1..3","args":{"k":"$item","note":"%[1]s","password":"%[1]s"}}]}`

// TestApprove: the waiting calls are shown beside those of the last approved run; some are approved with a reason, and a resume makes them.
func TestApprove(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	first, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "old"))
	_, page := ann.get("runs/" + first + "/approve")
	wantText(t, page, "3 calls", "undone by <code>shop.remove</code>", "!Approved last time")
	if status, page := ann.send(page, "runs/"+first+"/approve", url.Values{"decision": {"approve-all"}}); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, page)
	}
	s.wantCalls(t)

	second, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "new"))
	_, page = ann.get("approvals")
	wantText(t, page, second, "3 × <code>shop.put</code>", "!"+first)
	_, page = ann.get("runs/" + second + "/approve")
	wantText(t, page, first, "Approved last time", `<th scope="row">note <span class="mark">differs</span></th><td>&#34;new&#34;</td><td>&#34;old&#34;</td>`,
		`<tr><th scope="row">k</th><td>1</td><td>1</td></tr>`,
		`password <span class="mark">differs</span></th><td>&#34;[redacted]&#34;</td><td>&#34;[redacted]&#34;</td>`)
	_, left := ann.send(page, "runs/"+second+"/approve", url.Values{"decision": {"deny"}, "at": {"0[1]"}, "reason": {"not <b>two</b>"}})
	wantText(t, left, "2 calls", "!<strong>0[1]</strong>")
	if status, page := ann.send(page, "runs/"+second+"/approve", url.Values{"decision": {"approve-all"}}); status != fault.ResumeConflict.HTTP() {
		t.Errorf("a decision about other calls than those shown: status %d: %s", status, page)
	}
	_, run := ann.send(left, "runs/"+second+"/approve", url.Values{"decision": {"approve"}, "at": {"0[0]"}, "rest": {"deny"}})
	wantText(t, run, ">approved</span>", "Approval alone makes no call")
	_, answer := ann.send(run, "runs/"+second+"/resume", nil)
	wantText(t, answer, "denied", "not &lt;b&gt;two&lt;/b&gt;")
	s.wantCalls(t, `shop.put {"k":1,"note":"new","password":"new"}`)
	_, page = ann.get("runs/" + second)
	wantText(t, page, "runs/"+second+"/approve", "Denied calls")
	_, page = ann.get("runs/" + second + "/approve")
	wantText(t, page, "Denied calls", "denied: token:ann")
	_, run = ann.send(page, "runs/"+second+"/approve", url.Values{"decision": {"approve"}, "at": {"0[1]", "0[2]"}})
	ann.send(run, "runs/"+second+"/resume", nil)
	_, page = ann.get("runs/" + second)
	wantText(t, page, "!Denied calls")
	s.wantCalls(t, `shop.put {"k":2,"note":"new","password":"new"}`, `shop.put {"k":3,"note":"new","password":"new"}`)
	_, run = ann.get("playground")
	_, again := ann.send(run, "runs/"+second+"/resume", nil)
	wantText(t, again, "ended well")
	s.wantCalls(t)
}

// TestApproveRights: nobody decides about another's run, without the right to act, or about functions that one may not use.
func TestApproveRights(t *testing.T) {
	t.Parallel()
	reader := actor("token:ann")
	reader.Rights = steps.Rights{Tier: steps.TierAdmin, Functions: "shop.get"}
	all := person("token:all")
	all.All = true
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann"), "bob": actor("token:bob"), "all": all, "reader": reader}, nil)
	run, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "secretive"))
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	_, page := ann.get("runs/" + run + "/approve")
	_, bobs := bob.get("approvals")
	wantText(t, bobs, "No run waits", "!"+run)
	_, form := bob.get("")
	for _, path := range []string{"runs/" + run + "/approve", "runs/" + run + "/resume"} {
		if status, page := bob.send(form+`<input type="hidden" name="digest" value="x"`, path, url.Values{"decision": {"approve-all"}}); status == http.StatusOK {
			t.Errorf("%s by another caller: status %d: %s", path, status, page)
		}
		if status, page := s.browser(t, "all").send(strings.ReplaceAll(page, `name="form"`, `name="none"`), path, nil); status == http.StatusOK {
			t.Errorf("%s without a right to act: status %d: %s", path, status, page)
		}
	}
	if status, _ := bob.get("runs/" + run + "/approve"); status == http.StatusOK {
		t.Error("another caller's waiting calls are shown")
	}
	_, seen := s.browser(t, "all").get("runs/" + run + "/approve")
	wantText(t, seen, "shop.put", "You may look, not decide", "!<button name")
	limited := s.browser(t, "reader")
	_, seen = limited.get("runs/" + run + "/approve")
	wantText(t, seen, "0 calls", "3 more are of functions that you may not use", "!shop.put", "!secretive", "!shop.remove")
	_, seen = limited.get("approvals")
	wantText(t, seen, run, "3 × functions that you may not use", "!shop.put")
	if got := s.status(t, run); got != journal.Waiting {
		t.Errorf("the run is %s, want waiting", got)
	}
	s.wantCalls(t)
}

// TestDeniedAmongApproved: the pages say what a denial among approvals does: it ends the chain, the reason is that of the denial, and what was
// approved and not made is counted as such and can be denied.
func TestDeniedAmongApproved(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	run, _ := s.run(t, "token:ann", fmt.Sprintf(stock, "x"))
	path := "runs/" + run + "/approve"
	_, page := ann.get(path)
	wantText(t, page, "ends at the first call that is denied", "are denied, of 3")
	_, page = ann.send(page, path, url.Values{"decision": {"approve"}, "at": {"0[0]", "0[2]"}, "rest": {"deny"}, "reason": {"not two"}})
	wantText(t, page, "2 calls by token:ann at 0[0], 0[2]", "1 call by token:ann at 0[1]")
	if n := strings.Count(page, "not two"); n != 1 {
		t.Errorf("the reason is there %d times, want once: %s", n, page)
	}
	ann.send(page, "runs/"+run+"/resume", nil)
	s.wantCalls(t, `shop.put {"k":1,"note":"x","password":"x"}`)
	_, page = ann.get("runs/" + run)
	wantText(t, page, "1 of 3", "!Nothing was sent")
	_, page = ann.get(path)
	wantText(t, page, "1 call denied", "1 call approved and not made", "!Approve all")
	if status, page := ann.send(page, path, url.Values{"decision": {"approve-all"}}); status != fault.BadRequest.HTTP() {
		t.Errorf("approving all, as an earlier page offered it, takes back a denial: status %d: %s", status, page)
	}

	other, _ := s.run(t, "token:ann", `{"onError":"continue","steps":[{"fn":"shop.put","args":{"k":7}}]}`)
	path = "runs/" + other + "/approve"
	_, page = ann.get(path)
	wantText(t, page, "!ends at the first")
	ann.send(page, path, url.Values{"decision": {"approve-all"}})
	_, page = ann.get(path)
	wantText(t, page, "Approved calls", "Until then this page denies them", "Deny all 1", "!Approve all", "!Approve the chosen")
	_, page = ann.send(page, path, url.Values{"decision": {"deny-all"}})
	wantText(t, page, ">failed</span>", "Denied calls")
	ann.send(page, "runs/"+other+"/resume", nil)
	s.wantCalls(t)
}

// TestApprovedLastTime: a call stands beside the one with the same arguments, wherever that was, and never beside one that is another's.
func TestApprovedLastTime(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	text := `{"name":"mails","steps":[{"fn":"shop.put","forEach":"%s","args":{"k":"$item"}}]}`
	first, _ := s.run(t, "token:ann", fmt.Sprintf(text, "['ann','bob','cid']"))
	_, page := ann.get("runs/" + first + "/approve")
	ann.send(page, "runs/"+first+"/approve", url.Values{"decision": {"approve"}, "at": {"0[1]", "0[2]"}})
	second, _ := s.run(t, "token:ann", fmt.Sprintf(text, "['ann','cid','bob','dan']"))
	_, page = ann.get("runs/" + second + "/approve")
	wantText(t, page, "<td>&#34;cid&#34;</td><td>&#34;cid&#34;</td>", "<td>&#34;bob&#34;</td><td>&#34;bob&#34;</td>", "!differs")
	if n := strings.Count(page, "Last time, no call"); n != 2 {
		t.Errorf("%d calls stand beside none, want 2: %s", n, page)
	}
}

// TestManyWaitingCalls: of 1,000 waiting calls a page shows some, all are decided about, and hostile values are text.
func TestManyWaitingCalls(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	hostile := `<script>alert(1)</script>\u202e` + strings.Repeat("x", 5000)
	run, a := s.run(t, "token:ann", `{"steps":[{"fn":"shop.put","forEach":"1..1000","args":{"k":"$item","note":"`+hostile+`"}}]}`)
	if a.Question == nil || len(a.Question.Calls) != 1000 {
		t.Fatal(string(a.JSON))
	}
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run + "/approve")
	wantText(t, page, "1,000 calls", "Approve all 1,000", "&lt;script&gt;", `\u202e`, "!<script>alert", "show all of it",
		`<button name="turn" value="50">`, "!<strong>0[50]</strong>", "!hidden>Show again")
	if len(page) > 200_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	_, one := ann.get("runs/" + run + "/approve?at=0[70]")
	wantText(t, one, "<strong>0[70]</strong>", strings.Repeat("x", 5000), "!<strong>0[71]</strong>")
	_, later := ann.get("runs/" + run + "/approve?from=950")
	wantText(t, later, "<strong>0[999]</strong>", "!The next")
	wantText(t, page, "of 1 to 50, which this page shows, are denied")
	_, page = ann.send(page, "runs/"+run+"/approve", url.Values{"decision": {"approve"}, "at": {"0[3]"}, "rest": {"deny"}})
	wantText(t, page, "950 calls", "<strong>0[50]</strong>", "!<strong>0[49]</strong>")
	_, page = ann.send(page, "runs/"+run+"/approve", url.Values{"decision": {"approve-all"}})
	wantText(t, page, ">approved</span>")
}

// TestChoiceOfPages: what is chosen, and the reason, stay when another page of the calls is shown, and are decided about together. They are
// gone if the calls are others meanwhile.
func TestChoiceOfPages(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	run, _ := s.run(t, "token:ann", `{"onError":"continue","steps":[{"fn":"shop.put","forEach":"1..120","args":{"k":"$item"}}]}`)
	ann, path := s.browser(t, "ann"), "runs/"+run+"/approve"
	const checked, carried = `value="%s" checked>`, `<input type="hidden" name="at" value="%s">`
	_, page := ann.get(path)
	stale := page
	_, page = ann.send(page, path, url.Values{"turn": {"50"}, "at": {"0[3]", "0[7]"}, "reason": {"not \"now\""}, "rest": {"deny"}})
	wantText(t, page, "<strong>0[50]</strong>", "!<strong>0[49]</strong>", "2 calls of other pages are chosen, too", "not &#34;now&#34;</textarea>",
		`<option value="deny" selected>`, fmt.Sprintf(carried, "0[3]"), fmt.Sprintf(carried, "0[7]"), "!checked>")
	_, page = ann.send(page, path, url.Values{"turn": {"0"}, "at": {"0[3]", "0[7]", "0[60]"}})
	wantText(t, page, fmt.Sprintf(checked, "0[3]"), fmt.Sprintf(checked, "0[7]"), "1 call of other pages is chosen, too",
		fmt.Sprintf(carried, "0[60]"), "!"+fmt.Sprintf(checked, "0[4]"))
	s.wantCalls(t)
	_, page = ann.send(page, path, url.Values{"decision": {"deny"}, "at": {"0[3]", "0[60]"}, "reason": {"no"}})
	wantText(t, page, "118 calls", "!<strong>0[3]</strong>")
	_, page = ann.send(stale, path, url.Values{"turn": {"50"}, "at": {"0[7]"}})
	wantText(t, page, "none is chosen any more", "!checked>", "!"+fmt.Sprintf(carried, "0[7]"))
	if status, page := s.browser(t, "ann").post(path, url.Values{"turn": {"50"}}); status != fault.Denied.HTTP() {
		t.Errorf("without the form: status %d: %s", status, page)
	}
}
