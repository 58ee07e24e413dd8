package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

var areas = regexp.MustCompile(`(?s)<textarea[^>]*>(.*?)</textarea>`)

// chainOf returns the text of the editor on a page.
func chainOf(t *testing.T, page string) string {
	t.Helper()
	found := areas.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no editor:\n%s", page)
	}
	return strings.TrimPrefix(html.UnescapeString(found[1]), "\n")
}

const order = `{"name":"order","key":"k1","input":{"x":"</textarea><script>"},"steps":[
	{"id":"add","fn":"shop.add","args":{"k":1}},{"id":"send","fn":"shop.send","args":{"k":2,"after":"$add.k"}},{"fn":"shop.get","args":{"k":"$send.k"}}]}`

// TestFix: a failed run's chain is shown with its fault at its place; corrected, it is previewed and resumed, and nothing is done twice.
func TestFix(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann"), "looks": person("token:ann"), "bob": actor("token:bob")}, nil)
	s.fails[`shop.send {"k":2,"after":1}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "2 is sold out"}
	run, _ := s.run(t, "token:ann", order)
	s.wantCalls(t, `shop.add {"k":1}`, `shop.send {"k":2,"after":1}`)
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run + "/fix")
	text := chainOf(t, page)
	wantText(t, textOf(page), `line 15: function_failed 1: status 422: 2 is sold out "shop.send": { ^`, "0 add shop.add write reused",
		"1 send shop.send write made", "2 shop.get read made")
	wantText(t, text, `"shop.send": {`, `</textarea><script>`, "!k1")
	wantText(t, page, "!<script>&", "!<script>\"")

	path := "runs/" + run + "/fix"
	_, page = ann.send(page, path, url.Values{"text": {strings.Replace(text, "shop.send", "shop.sent", 1)}, "do": {"resume"}})
	wantText(t, textOf(page), "The chain has faults", "unknown_function", "shop.send")
	wantText(t, chainOf(t, page), "shop.sent")
	_, page = ann.send(page, path, url.Values{"text": {`{"steps":[`}, "do": {"preview"}})
	wantText(t, textOf(page), "The chain has faults", "bad_json", `line 1, column 11: it ends too early`)
	_, page = ann.send(page, path, url.Values{"text": {`{`}, "do": {"preview"}})
	wantText(t, textOf(page), "bad_json", "!What a resume does")
	_, page = ann.send(page, path, url.Values{"text": {"{\n\"steps\":[\n{\"fn\":\"shop.add\",\n\"argz\":{}}]}"}, "do": {"preview"}})
	wantText(t, textOf(page), `unknown_field line 4, column 1`)
	_, page = ann.send(page, path, url.Values{"text": {strings.Replace(text, `"k": 1`, `"k": 7`, 1)}, "do": {"preview"}})
	wantText(t, textOf(page), "The run has made these calls, and the chain does not contain them 0 shop.add", "0 add shop.add write made")
	s.wantCalls(t)

	fixed := url.Values{"text": {strings.Replace(text, `"k": 2`, `"k": 3`, 1)}, "do": {"resume"}}
	looks, bob := s.browser(t, "looks"), s.browser(t, "bob")
	_, looked := looks.get(path)
	wantText(t, looked, "Preview", "!>Resume</button>")
	if status, page := looks.send(looked, path, fixed); status != fault.Denied.HTTP() {
		t.Errorf("a resume without the right to act: status %d: %s", status, page)
	}
	_, form := bob.get("")
	for _, target := range []string{path, "runs/" + run + "/undo", "runs/" + run + "/resume"} {
		if status, page := bob.send(form+`name="form" value="`, target, fixed); status == http.StatusOK {
			t.Errorf("%s by another caller: status %d: %s", target, status, page)
		}
		if status, page := bob.get(target); status == http.StatusOK || strings.Contains(page, "shop.") {
			t.Errorf("%s for another caller: status %d: %s", target, status, page)
		}
	}
	s.wantCalls(t)
	_, page = ann.send(page, path, fixed)
	wantText(t, textOf(page), "Resume "+run+" ok")
	s.wantCalls(t, `shop.send {"k":3,"after":1}`, `shop.get {"k":3}`)
	ann.send(looked, path, fixed)
	s.wantCalls(t)
}

// TestFixRemoves: a field that is removed from the chain is gone, and is not taken from the run again.
func TestFixRemoves(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	run, _ := s.run(t, "token:ann", `{"onError":"continue","steps":[{"fn":"shop.send","args":{"k":5}}],"return":"$0.nothing"}`)
	s.wantCalls(t, `shop.send {"k":5}`)
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run + "/fix")
	_, page = ann.send(page, "runs/"+run+"/fix", url.Values{"text": {`{"steps":[{"fn":"shop.send","args":{"k":5}}]}`}, "do": {"resume"}})
	wantText(t, textOf(page), "Resume "+run+" ok")
	past, err := s.journal.Read(t.Context(), run, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(past.Chain), `"shop.send"`, "!continue", "!$0.nothing")
	s.wantCalls(t)
}

// TestFixUnknown: the viewer says whether a call was done whose outcome is not known.
func TestFixUnknown(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	s.fails[`shop.send {"k":1}`] = fault.New(fault.Timeout, "the line is dead")
	run, _ := s.run(t, "token:ann", `{"steps":[{"fn":"shop.send","args":{"k":1}}]}`)
	delete(s.fails, `shop.send {"k":1}`)
	s.wantCalls(t, `shop.send {"k":1}`)
	ann := s.browser(t, "ann")
	path := "runs/" + run + "/fix"
	_, page := ann.get(path)
	wantText(t, textOf(page), "It is not known whether these calls were done: say it if you know 0 shop.send")
	text := chainOf(t, page)
	_, answer := ann.send(page, path, url.Values{"text": {text}, "do": {"resume"}})
	wantText(t, textOf(answer), "resume_conflict")
	s.wantCalls(t)
	if status, page := ann.send(page, path, url.Values{"text": {text}, "assume": {"0=done"}}); status != fault.BadRequest.HTTP() {
		t.Errorf("an outcome that does not exist: status %d: %s", status, page)
	}
	_, answer = ann.send(page, path, url.Values{"text": {text}, "assume": {"0=not_sent"}, "do": {"resume"}})
	wantText(t, textOf(answer), "Resume "+run+" ok")
	s.wantCalls(t, `shop.send {"k":1}`)
}

// TestFixRights: a chain with functions that the viewer may not use any more is not shown.
func TestFixRights(t *testing.T) {
	t.Parallel()
	lowered := actor("token:ann")
	lowered.Rights = steps.Rights{Tier: steps.TierAdmin, Functions: "shop.get"}
	s := newShop(t, map[string]*console.Viewer{"ann": lowered}, withValues)
	s.fails[`shop.send {"k":2,"after":1}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "shop.send is full"}
	run, _ := s.run(t, "token:ann", order)
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run + "/fix")
	wantText(t, page, "is not shown", "!shop.", "!<textarea", "!is full")
	if status, page := ann.send(page, "runs/"+run+"/fix", url.Values{"text": {order}}); status == http.StatusOK || strings.Contains(page, "shop.") {
		t.Errorf("status %d: %s", status, page)
	}
	_, page = ann.get("runs/" + run + "/undo")
	wantText(t, page, "a function that you may not use", "!shop.")
}

// TestUndo: the page says what an undo does, in its order; the undo does it once.
func TestUndo(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, withValues)
	run, _ := s.run(t, "token:ann", `{"steps":[{"fn":"shop.add","args":{"k":1}},{"fn":"shop.add","args":{"k":2}},{"fn":"shop.send","args":{"k":3}}]}`)
	s.wantCalls(t, `shop.add {"k":1}`, `shop.add {"k":2}`, `shop.send {"k":3}`)
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run + "/undo")
	wantText(t, textOf(page), "2 of 3 calls would be undone", `2 shop.send {"k":3} stays : it has no undo`,
		`shop.add {"k":2} shop.remove {"k":2}`, `shop.add {"k":1} shop.remove {"k":1}`, "Undo 2 calls")
	_, answer := ann.send(page, "runs/"+run+"/undo", nil)
	wantText(t, textOf(answer), "ok All that has an undo was undone. 1 call without one: not undone", "shop.send at 2 has no undo")
	s.wantCalls(t, `shop.remove {"k":1}`, `shop.remove {"k":2}`)
	ann.send(page, "runs/"+run+"/undo", nil)
	s.wantCalls(t)
	if status := s.status(t, run); status != journal.Undone {
		t.Errorf("the run is %s", status)
	}
	_, page = ann.get("runs/" + run + "/undo")
	wantText(t, textOf(page), "0 of 1 call would be undone", "!Undo 0 calls")
	_, page = ann.get("runs/" + run)
	wantText(t, page, "!/undo\"", "!not_supported")
}
