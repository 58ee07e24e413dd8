package search

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// manyFunctions returns functions with names, descriptions and arguments like those of real services.
func manyFunctions(tb testing.TB, count int) *steps.Registry {
	words := strings.Fields(`account address alert archive artifact asset audit backup balance batch billing branch bucket build campaign card
		catalog category channel check cluster comment commit contact contract coupon customer dashboard database deployment device disk
		document domain employee endpoint environment event export feature feed field file filter folder form gateway group hook image
		import index insight instance interface invoice issue job journal key label layer lead license limit link list log machine member
		message metric milestone model module monitor network node note notification object offer option order package page partner
		payment permission pipeline plan policy pool port post price process product profile project property provider query queue
		rack range rate record region release report request reservation resource review role route rule run runner schedule schema
		secret section segment server service session setting shift shipment signature site snapshot space stage statistic status
		storage store stream subnet subscription summary table tag target task team template tenant term ticket token topic trace
		transaction transfer trigger tunnel unit upload user value variable vendor version view volume warehouse wallet webhook widget
		workflow workspace zone`)
	verbs := []string{"list", "get", "create", "update", "delete", "search", "export", "archive", "restore", "cancel"}
	var functions []steps.Function
	for i := range count {
		resource, piece := words[i/len(verbs)%len(words)], words[(i/len(verbs)*7+i/len(words)*13)%len(words)]
		verb := verbs[i%len(verbs)]
		functions = append(functions, function(fmt.Sprintf("service%d.%s.%s_%d.%s", i%37, resource, piece, i/1000, verb),
			fmt.Sprintf("%ss the %s of a %s for the tenant that owns the %s. Answers within the limits of the service.", verb, piece, resource,
				words[i*31%len(words)]),
			resource+"Id", piece+"Name", "pageSize", "cursor", words[i*17%len(words)]+"Filter", "includeArchived"))
	}
	r, err := steps.NewRegistry(functions, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func BenchmarkFind(b *testing.B) {
	r := manyFunctions(b, 10_000)
	x := New(r)
	keep := func(spec *steps.Spec) bool {
		return spec.MinimumTier() <= steps.TierReadWrite && !strings.HasPrefix(spec.Name, "service3.")
	}
	for what, c := range map[string]struct {
		query   string
		minimum int // hits
	}{
		"common":     {"list the archived items of a service tenant", 20},
		"rare":       {"warehouse shipment", 20},
		"misspelt":   {"warehuse shipmnt custmer", 20},
		"not there":  {"qqqqqqqq zzzzzzzzz xxxxxxxxxx vvvvvvvvvvv", 0},
		"name":       {"service7.webhook.list", 1},
		"a megabyte": {strings.Repeat("warehuse shipmnt ", 1<<16), 20},
	} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if hits := x.Find(c.query, keep, 20); len(hits) < c.minimum {
					b.Fatalf("got %v, want at least %d", names(hits), c.minimum)
				}
			}
		})
	}
	b.Run("cold", func(b *testing.B) { // the first search after a change
		b.ReportAllocs()
		for b.Loop() {
			New(r).Find("warehouse shipment", keep, 20)
		}
	})
}
