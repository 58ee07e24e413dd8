package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestProjectedOperation checks that an operation of an OpenAPI document is asked for the members that a chain reads, that the call cache
// keeps answers of different members apart, and that a recording has the whole results.
func TestProjectedOperation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.RawQuery)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		item := `{"id":7,"name":"lamp","left":3}`
		switch strings.Join(r.URL.Query()["fields"], ",") {
		case "left":
			item = `{"left":3}`
		case "id,name":
			item = `{"id":7,"name":"lamp"}`
		}
		fmt.Fprint(w, "["+item+"]")
	}))
	t.Cleanup(service.Close)
	folder := t.TempDir()
	write(t, folder, "shop.json", `{"openapi":"3.1.0","info":{"title":"shop","version":"1"},"paths":{"/items":{"get":{
		"parameters":[{"name":"fields","in":"query","schema":{"type":"array","items":{"type":"string"}}}],
		"responses":{"200":{"description":"items","content":{"application/json":{"schema":{"type":"array","items":{"type":"object",
			"required":["id","name","left"],
			"properties":{"id":{"type":"integer"},"name":{"type":"string"},"left":{"type":"integer"}}}}}}}}}}}}`)
	config := write(t, folder, "onecall.yaml", `{shapes: off, journal: {store: memory}, functions: {"shop.*": {fields: fields, cacheTtl: 1h}},
		openapi: {shop: {spec: ./shop.json, baseUrl: "`+service.URL+`"}}}`)
	tape := filepath.Join(folder, "tape.jsonl")
	for _, test := range []struct {
		options Options
		asked   []string
		usage   string
	}{
		{Options{Config: config}, []string{"fields=left", "fields=id&fields=name"}, `"calls":3,"cached":1,"projected":{"calls":3,"members":5}`},
		{Options{Config: config, Record: tape}, []string{""}, `"calls":3,"cached":2,"ms"`},
		{Options{Config: config, Replay: tape}, nil, `"calls":3,"cached":2,"ms"`},
	} {
		got := answerFor(t, &test.options, `{"steps":[{"shop.item.list":{},"select":"$result[0].left"},{"shop.item.list":{}},`+
			`{"shop.item.list":{},"when":"$1[0].left > 0"}],"return":["$0","$1[*].left","$2[0].id","$2[0].name"]}`)
		mu.Lock()
		sent := asked
		asked = nil
		mu.Unlock()
		if !slices.Equal(sent, test.asked) || !strings.Contains(got, `"result":[3,[3],7,"lamp"]`) || !strings.Contains(got, test.usage) ||
			strings.Contains(got, "warnings") {
			t.Errorf("the service was asked %q, and the answer is %s; want %q and %s", sent, got, test.asked, test.usage)
		}
	}
}
