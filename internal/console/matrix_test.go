package console_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// zebra is in all names and texts of what the viewers of the matrix may not see.
const zebra = "zebra"

// streams is the route of the events of a run.
const streams = "GET /console/events"

// zebraRuns are runs of a caller whom the viewers of the matrix know nothing of, by what became of them.
func zebraRuns(t *testing.T, s *shop) map[string]string {
	t.Helper()
	s.fails[`shop.send {"k":3}`] = &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: zebra}
	ids := map[string]string{}
	for what, steps := range map[string]string{
		"waits":    `{"fn":"shop.add","args":{"k":"zebra"}},{"fn":"shop.put","args":{"k":1}}`,
		"approved": `{"fn":"shop.put","args":{"k":"zebra"}}`,
		"failed":   `{"fn":"shop.add","args":{"k":2}},{"fn":"shop.send","args":{"k":3}}`,
		"ok":       `{"fn":"zebra.add","args":{"k":"zebra"}}`,
	} {
		ids[what], _ = s.run(t, "token:ann", `{"name":"zebra","key":"zebra `+what+`","steps":[`+steps+`]}`)
	}
	ann := s.browser(t, "ann")
	path := "runs/" + ids["approved"] + "/approve"
	_, page := ann.get(path)
	ann.send(page, path, url.Values{"decision": {"approve-all"}, "reason": {zebra}})
	return ids
}

// matrixRequests returns requests to all pages and actions, by their routes: each for what the viewers may not see.
func matrixRequests(ids map[string]string, act string) map[string][]string {
	requests := map[string][]string{}
	for _, id := range ids {
		requests[streams] = append(requests[streams], "events?run="+id)
	}
	for _, route := range console.Routes() {
		paths := []string{strings.TrimSuffix(strings.TrimPrefix(route[strings.Index(route, " ")+1:], console.Path), "{$}")}
		fill := func(place string, values ...string) {
			if !strings.Contains(paths[0], place) {
				return
			}
			var filled []string
			for _, path := range paths {
				for _, value := range values {
					filled = append(filled, strings.Replace(path, place, value, 1))
				}
			}
			paths = filled
		}
		fill("{id}", ids["waits"], ids["approved"], ids["failed"], ids["ok"])
		fill("{step}", "0", "1")
		fill("{n}", "1", "2", "3")
		fill("{name}", "zebra.add", "chain.zebra", zebra)
		fill("{act}", act)
		requests[route] = paths
	}
	return requests
}

// matrixQueries are the queries of pages.
func matrixQueries(ids map[string]string) []string {
	queries := []string{"", "?chain=zebra", "?caller=token:ann", "?function=zebra.add", "?q=zebra", "?source=zebra", "?status=waiting", "?at=0&failed=1"}
	return append(queries, "?run="+ids["waits"]+"&with="+ids["failed"], "?parent="+ids["ok"])
}

// matrixForms are the fields of actions: each action reads its own.
func matrixForms(id string) (forms []url.Values) {
	for _, fields := range [][3]string{
		{"run", "deny-all", `{"resume":"` + id + `"}`},
		{"check", "approve", `{"resume":"` + id + `","steps":[{"fn":"zebra.add","args":{"k":1}}]}`},
		{"resume", "approve-all", `{"steps":[{"fn":"zebra.add","args":{"k":1}}]}`},
	} {
		forms = append(forms, url.Values{"do": {fields[0]}, "decision": {fields[1]}, "text": {fields[2]}, "at": {"0"}, "digest": {"x"},
			"assume": {"0=applied"}, "param.k": {zebra}})
	}
	return forms
}

// TestNothingOfOthers: no page and no action tells a viewer anything of other callers' runs, or of functions that it may not use: their ids,
// names, texts, or how many there are. Each answers as if there were none, and does nothing to them.
func TestNothingOfOthers(t *testing.T) {
	t.Parallel()
	viewer := func(id string, acts bool, functions string) *console.Viewer {
		v := person(id)
		v.Acts, v.Rights.Functions = acts, functions
		return v
	}
	all := viewer("token:all", true, "")
	all.All = true
	decides := viewer("token:dan", true, "shop.*")
	decides.DecidesFor = "token:carl\ntoken:eve"
	viewers := map[string]*console.Viewer{"ann": actor("token:ann"), "all": all, "acts": viewer("token:bob", true, "shop.*"),
		"looks": viewer("token:joe", false, "shop.*"), "reads": viewer("token:sue", true, "shop.get"), "decides": decides}
	whole, lacking := newShop(t, viewers, nil), newShop(t, viewers, nil)
	if err := whole.catalog.Add(zebra, functionList{{Spec: steps.Spec{Name: "zebra.add", Description: zebra, EffectDeclared: true, Effect: steps.Write},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`"zebra"`), nil }}}); err != nil {
		t.Fatal(err)
	}
	ids := zebraRuns(t, whole)
	statuses := func() (list []journal.Status) {
		for _, what := range []string{"waits", "approved", "failed", "ok"} {
			list = append(list, whole.status(t, ids[what]))
		}
		return list
	}
	before := statuses()
	whole.calls = nil
	requests, queries := matrixRequests(ids, "0123456789abcdef0123456789abcdef"), matrixQueries(ids)
	volatile := regexp.MustCompile(`name="(form|key)" value="[^"]*"|<time.*?</time>|acts/[0-9a-f]{32}|(&lt;)?[0-9.]+ (ms|s)\b|run_[0-9a-z]+`)
	// ask sends requests as a viewer to both shops, and returns the routes that answer differently.
	ask := func(name string) (differ map[string]string) {
		differ = map[string]string{}
		browsers := []*browser{whole.browser(t, name), lacking.browser(t, name)}
		_, form := browsers[0].get("playground")
		tried := 0
		for route, paths := range requests {
			method, _, _ := strings.Cut(route, " ")
			for _, path := range paths {
				ways := queries // each page without a query and with one of them, and those that search with all
				switch tried++; {
				case method == http.MethodPost:
					ways = make([]string, len(matrixForms("")))
				case path != "" && path != "functions":
					ways = []string{"", queries[tried%len(queries)]}
				}
				for i, query := range ways {
					var answers [2]string
					for n, b := range browsers {
						status, page := 0, ""
						if method == http.MethodPost {
							status, page = b.send(form, path, matrixForms(ids["failed"])[i])
						} else {
							status, page = b.get(path + query)
						}
						answers[n] = http.StatusText(status) + volatile.ReplaceAllString(page, "")
					}
					if answers[0] != answers[1] {
						differ[route] = path + query + ": " + firstDifference(answers[0], answers[1])
					}
				}
			}
		}
		return differ
	}
	for name := range viewers {
		if name == "ann" || name == "all" {
			continue
		}
		for route, why := range ask(name) {
			t.Errorf("%s: %s: %s", name, route, why)
		}
	}
	if got := statuses(); !slices.Equal(got, before) {
		t.Errorf("the runs are %q, want %q as before", got, before)
	}
	if !slices.Equal(whole.calls, lacking.calls) {
		t.Errorf("calls were made %q, want %q", whole.calls, lacking.calls)
	}
	delete(requests, streams) // that of a run that is seen does not end
	seen := ask("all")        // or the matrix would see nothing at all
	for route := range requests {
		if strings.Contains(route, "{id}") && seen[route] == "" {
			t.Errorf("%s: who sees all runs is told nothing, either", route)
		}
	}
}

// firstDifference returns the first lines in which two pages differ.
func firstDifference(got, want string) string {
	lines, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i, line := range lines {
		if i >= len(wanted) || line != wanted[i] {
			return line + "\nwant " + strings.Join(wanted[min(i, len(wanted)):min(i+1, len(wanted))], "")
		}
	}
	return "it ends before " + wanted[len(lines)]
}
