package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

var (
	tags   = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
	millis = regexp.MustCompile(`(<1|\d+) ms`)
)

// textOf returns the text of a page's main part, without its pictures and times.
func textOf(page string) string {
	_, main, _ := strings.Cut(page, `<main id="main">`)
	return millis.ReplaceAllString(spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(main, " ")), " "), "0 ms")
}

func withValues(b *console.Backend) { b.Values = true }

const mixed = `{"name":"mixed","onError":"continue","steps":[{"id":"first","fn":"shop.get","args":{"k":0}},
	{"fn":"shop.add","forEach":"1..15","args":{"k":"$item"}},{"fn":"shop.send","args":{"k":"$first.k","password":"hunter2"}}]}`

// TestRun: the elements of a step are one row that opens, with those that failed first; a step and a call have pages of their own.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, values := range []bool{false, true} {
		s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, func(b *console.Backend) { b.Values = values })
		s.fails[`shop.add {"k":14}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "no <b>room</b>"}
		run, _ := s.run(t, "token:ann", mixed)
		ann := s.browser(t, "ann")
		_, page := ann.get("runs/" + run)
		text := textOf(page)
		wantText(t, text, "mixed "+run+" failed began", "applied 15", "failed 1", "Resume",
			"1[…] shop.add × 15 failed 1 failed function_failed", "10 of 15 elements, those that failed first 1[13] shop.add failed function_failed status 422: no <b>room</b>",
			"onecall resume "+run)
		wantText(t, page, "<svg", "&lt;b&gt;room", "!hunter2", "/steps/1\"")
		_, step := ann.get("runs/" + run + "/steps/1")
		wantText(t, textOf(step), "Step 1 mixed, run "+run+" 15 calls.", "1[0] shop.add ok applied", "1[14] shop.add ok applied")
		_, step = ann.get("runs/" + run + "/steps/1?failed=1")
		wantText(t, textOf(step), "1 failed call.", "1[13] shop.add failed", "!1[0]")
		link := regexp.MustCompile(`runs/run_[a-z0-9]+/calls/\d+`).FindAllString(page, -1)
		_, call := ann.get(link[len(link)-1])
		wantText(t, textOf(call), "2 shop.send run "+run+" ok applied", "!hunter2")
		if values {
			wantText(t, textOf(call), `"k": 0`, `"password": "[redacted]"`)
			wantText(t, text, `{"k":14}`, `{"k":0} → {"k":0}`)
			continue
		}
		wantText(t, text, "Arguments and results are not shown", `!{"k"`)
		wantText(t, textOf(call), "Arguments and results are not shown", `!"k"`)
	}
}

// TestRunOfManyCalls: the page of a run of 20,000 events has some hundred rows, and is small.
func TestRunOfManyCalls(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, withValues)
	run, a := s.run(t, "token:ann", `{"steps":[{"fn":"shop.add","forEach":"1..5000","args":{"k":"$item"}},
		{"fn":"shop.get","forEach":"1..5000","args":{"k":"$item","text":"`+strings.Repeat("<i>", 200)+`"}},
		{"fn":"shop.send","forEach":"1..2500","args":{"k":"$item"}}]}`)
	if !a.OK {
		t.Fatalf("%.500s", a.JSON)
	}
	ann := s.browser(t, "ann")
	_, page := ann.get("runs/" + run)
	wantText(t, page, "5,000", "2,500", "!<i>")
	_, step := ann.get("runs/" + run + "/steps/1?from=4900")
	wantText(t, step, "Rows 4,901 to 5,000 of 5,000")
	for name, page := range map[string]string{"run": page, "step": step} {
		if rows := strings.Count(page, "<tr"); rows > 500 || len(page) > 400_000 {
			t.Errorf("the page of the %s has %d rows and %d bytes", name, rows, len(page))
		}
	}
}

// TestRunRights: a caller whose rights were lowered sees its earlier run without what it may not know any more; others see nothing.
func TestRunRights(t *testing.T) {
	t.Parallel()
	lowered := actor("token:ann")
	lowered.Rights = steps.Rights{Tier: steps.TierAdmin, Functions: "shop.get"}
	s := newShop(t, map[string]*console.Viewer{"ann": lowered, "bob": actor("token:bob")}, withValues)
	s.fails[`shop.add {"k":3}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "shop.add is full"}
	run, _ := s.run(t, "token:ann", mixed)
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	_, page := ann.get("runs/" + run)
	wantText(t, page, "shop.get", "a function that you may not use", "!shop.add", "!shop.send", "!is full", "!{&#34;k&#34;:3}")
	paths := []string{"runs/" + run, "runs/" + run + "/steps/1"}
	for _, link := range regexp.MustCompile(`runs/run_[a-z0-9]+/calls/\d+`).FindAllString(page, -1) {
		_, call := ann.get(link)
		wantText(t, call, "!shop.add", "!shop.send", "!is full")
		paths = append(paths, link)
	}
	_, step := ann.get("runs/" + run + "/steps/1")
	wantText(t, step, "15 calls", "!shop.add", "!is full")
	for _, path := range paths {
		if status, page := bob.get(path); status == http.StatusOK || strings.Contains(page, "shop.") || strings.Contains(page, "mixed") {
			t.Errorf("%s for another caller: status %d: %s", path, status, page)
		}
	}
}
