package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onecall-mcp/onecall/internal/tally"
)

// checkedServices report their health, and wantedFields are the five of their fifty fields that a client wants.
var (
	checkedServices = []string{"auth", "billing", "catalog", "mail", "orders", "search", "shipping", "stock"}
	wantedFields    = []string{"status", "version", "uptime", "errors", "latency"}
)

// healthOf returns the answer of a service: the wanted fields, among others.
func healthOf(name string) map[string]any {
	all := map[string]any{
		"service": name, "status": "ok", "version": fmt.Sprintf("2.%d.1", len(name)), "uptime": 86400 * len(name),
		"errors": len(name) % 3, "latency": 12.5,
	}
	if name == "shipping" {
		all["status"] = "degraded"
	}
	for _, piece := range strings.Fields("database cache queue disk network scheduler workers sessions certificates backups indexes") {
		all[piece+"_state"] = "ok"
		all[piece+"_used"] = 17 * len(piece)
		all[piece+"_limit"] = 1000
		all[piece+"_checked_at"] = "2026-01-01T00:00:00Z"
	}
	return all
}

const healthDocument = `{"openapi":"3.0.3","info":{"title":"Health","version":"1"},"paths":{"/health":{"get":{"operationId":"getHealth",
"summary":"Tell how the service is",
"responses":{"200":{"description":"its state","content":{"application/json":{"schema":{"type":"object"}}}}}}}}}`

// countHealth asks eight services for their health, and wants five of the fifty fields of each.
func countHealth(t *testing.T, c *counts) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(healthOf(strings.Split(r.URL.Path, "/")[1])) // a client that has left needs no answer
	})
	var services []service
	for _, name := range checkedServices {
		services = append(services, service{name, []byte(healthDocument), handler, "/" + name})
	}
	chain, flat := serveBoth(t, services...)
	var want []any
	for _, name := range checkedServices {
		var all map[string]any
		if err := json.Unmarshal([]byte(flat.call(name+"_health_get", `{}`)), &all); err != nil || len(all) != 50 {
			t.Fatalf("%s answers %d fields, want 50: %v", name, len(all), err)
		}
		picked := map[string]any{}
		for _, field := range wantedFields {
			picked[field] = all[field]
		}
		want = append(want, picked)
	}
	var got []any
	if err := json.Unmarshal([]byte(chain.call("chain", healthChain())), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the chain answers otherwise (- calls, + chain):\n%s", diff)
	}
	row := func(name string, s tally.Side) countRow {
		return countRow{name, []countCell{numberCell(s.RoundTrips), numberCell(1), tokenCell(s.Written), tokenCell(s.Read),
			tokenCell(together(s))}}
	}
	c.table("Five of fifty fields from eight services", []string{"", "round trips", "side by side, at least", "written", "read",
		"written and read"}, row("flat tools, one by one", flat.spent), row("one chain", chain.spent))
	c.ratio("health/tokens", "5 of 50 fields from 8 services, written and read: one chain / one by one",
		together(chain.spent), together(flat.spent))
}

// healthChain returns a chain that asks all services, and keeps the wanted fields of each.
func healthChain() string {
	var steps, results, fields []string
	for i, name := range checkedServices {
		steps = append(steps, `{"fn":"`+name+`.health.get"}`)
		results = append(results, fmt.Sprint("$", i))
	}
	for _, field := range wantedFields {
		fields = append(fields, field+": ."+field)
	}
	return fmt.Sprintf(`{"steps":[%s,{"expr":"map([%s], ({%s}))"}],"lite":true}`,
		strings.Join(steps, ","), strings.Join(results, ", "), strings.Join(fields, ", "))
}
