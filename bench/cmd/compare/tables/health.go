package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// checked lists the services that report their health, and wanted the five of their fifty fields that a client wants.
var (
	checked = []string{"auth", "billing", "catalog", "mail", "orders", "search", "shipping", "stock"}
	wanted  = []string{"status", "version", "uptime", "errors", "latency"}
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

// health asks eight services for their health, of which it wants five of fifty fields.
func (b *bench) health(ctx context.Context) error {
	url, stop, err := service(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(healthOf(strings.Split(r.URL.Path, "/")[1])) // a client that has left needs no answer
	}))
	if err != nil {
		return err
	}
	defer stop()
	spec, err := b.file("health.json", []byte(healthDocument))
	if err != nil {
		return err
	}
	sources := map[string]any{}
	for _, name := range checked {
		sources[name] = map[string]string{"spec": spec, "baseUrl": url + "/" + name}
	}
	chain, flat, err := b.both(ctx, "health", setup{"openapi": sources})
	if err != nil {
		return err
	}
	defer chain.close()
	defer flat.close()
	var want []any
	for _, name := range checked {
		text, err := flat.call(ctx, b.count, name+"_health_get", `{}`)
		if err != nil {
			return err
		}
		var all map[string]any
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 50 {
			return fmt.Errorf("%d fields: %w", len(all), err)
		}
		picked := map[string]any{}
		for _, field := range wanted {
			picked[field] = all[field]
		}
		want = append(want, picked)
	}
	text, err := chain.call(ctx, b.count, "chain", healthChain())
	if err != nil {
		return err
	}
	var got []any
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s, want %v: %w", text, want, err)
	}
	b.corpus("(h): eight services of this comparison on loopback, which answer fifty fields each")
	line := func(name string, t tokens) report.Row {
		return row(name, number(t.calls), number(1), tokensOf(t.written), tokensOf(t.read), tokensOf(t.written+t.read))
	}
	b.table("(h) Five of fifty fields from eight services", []string{"", "round trips", "side by side, at least", "written", "read",
		"written and read"},
		line("flat tools, one by one", flat.spent), line("one chain", chain.spent))
	b.tokenFigure("health/tokens", "5 of 50 fields from 8 services, written and read: one chain / one by one",
		chain.spent.written+chain.spent.read, flat.spent.written+flat.spent.read, 0)
	return nil
}

// healthChain returns a chain that asks all services, and keeps the wanted fields of each.
func healthChain() string {
	var steps, results, fields []string
	for i, name := range checked {
		steps = append(steps, `{"fn":"`+name+`.health.get"}`)
		results = append(results, fmt.Sprint("$", i))
	}
	for _, field := range wanted {
		fields = append(fields, field+": ."+field)
	}
	return fmt.Sprintf(`{"steps":[%s,{"expr":"map([%s], ({%s}))"}],"lite":true}`,
		strings.Join(steps, ","), strings.Join(results, ", "), strings.Join(fields, ", "))
}
