package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
)

// TestFaultPages: a page says to a person what is wrong, and has no advice for agents, nor codes that could be about the login.
func TestFaultPages(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann"), "looks": person("token:ann")}, nil)
	ann := s.browser(t, "ann")
	for path, text := range map[string]string{"runs/run_nothing": "there is no such run here", "nowhere": "there is no such page",
		"acts/none": "this answer is not kept any more"} {
		status, page := ann.get(path)
		if want := map[bool]int{true: http.StatusNotFound, false: fault.TokenExpired.HTTP()}[path == "nowhere"]; status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
		wantText(t, textOf(page), "Not shown "+text, "All runs", "!token_expired", "!onecall runs")
	}
	s.fails[`shop.send {"k":2}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "2 is sold out"}
	run, _ := s.run(t, "token:ann", `{"steps":[{"fn":"shop.add","args":{"k":1}},{"fn":"shop.send","args":{"k":2}}]}`)
	for _, path := range []string{"runs/" + run, "runs/" + run + "/fix"} {
		_, page := ann.get(path)
		wantText(t, page, "2 is sold out", "!Read the message", "!send it with")
	}
	_, page := ann.get("playground")
	status, page := ann.send(page, "runs/"+run+"/approve", url.Values{"decision": {"approve"}, "form": {"old"}})
	wantText(t, textOf(page), "Not done this form has expired", "!configuration")
	if status != fault.Denied.HTTP() {
		t.Errorf("an old form: status %d", status)
	}
	_, page = s.browser(t, "looks").get("runs/" + run)
	wantText(t, page, "Compare", "!/undo\"", "!Fix and resume", "!>Resume<")

	stranger := &browser{&http.Client{}, t, s.site}
	_, page = stranger.post("playground", nil)
	wantText(t, page, `<a href="/console/login">Log in</a>`)
}

// TestEmptyPlayground: who runs or checks no chain is told.
func TestEmptyPlayground(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	_, page := ann.get("playground")
	for _, do := range []string{"run", "check"} {
		_, told := ann.send(page, "playground", url.Values{"text": {" "}, "do": {do}})
		wantText(t, textOf(told), "there is no chain: write one first")
	}
	_, told := ann.send(page, "playground", url.Values{"text": {" "}})
	wantText(t, told, "!there is no chain")
}
