package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// inventory is a small service for the hardware of a company. It counts the objects that it makes.
type inventory struct {
	mu   sync.Mutex
	made map[string]int // the number of objects made, by kind
	last int            // the last id
}

// kinds lists the kinds of objects in an inventory, each with the kind of its parent.
var kinds = []struct{ name, parent string }{
	{"site", ""}, {"rack", "site"}, {"device", "rack"}, {"interface", "device"}, {"cable", "interface"},
}

// inventoryDocument returns the service's OpenAPI document: an operation that makes an object, for each kind, and two that make many
// devices and list them.
func inventoryDocument() []byte {
	type object = map[string]any
	text, number := object{"type": "string"}, object{"type": "integer"}
	answer := func(code string, schema object) object {
		return object{code: object{"description": "done", "content": object{"application/json": object{"schema": schema}}}}
	}
	body := func(schema object) object {
		return object{"required": true, "content": object{"application/json": object{"schema": schema}}}
	}
	paths := object{}
	for _, kind := range kinds {
		properties, required := object{"name": text}, []string{"name"}
		if kind.parent != "" {
			properties[kind.parent], required = number, append(required, kind.parent)
		}
		paths["/"+kind.name+"s"] = object{"post": object{"operationId": "create_" + kind.name, "summary": "Create a " + kind.name,
			"requestBody": body(object{"type": "object", "properties": properties, "required": required}),
			"responses":   answer("201", object{"type": "object", "properties": object{"id": number, "name": text}})}}
	}
	listOf := func(schema object) object { return object{"type": "array", "items": schema} }
	devices := listOf(object{"type": "object"})
	paths["/devices"].(object)["get"] = object{"operationId": "list_devices", "summary": "List all devices",
		"responses": answer("200", object{"type": "object", "properties": object{"count": number, "results": devices}})}
	paths["/devices/bulk"] = object{"post": object{"operationId": "bulk_create_devices", "summary": "Create many devices",
		"requestBody": body(object{"type": "object", "properties": object{"names": listOf(text)}, "required": []string{"names"}}),
		"responses":   answer("201", devices)}}
	document, _ := json.Marshal(object{"openapi": "3.0.3", "info": object{"title": "Inventory", "version": "1"}, "paths": paths})
	return document // never fails for strings and maps
}

// thing returns an object as the service answers it, with as many fields as such services have.
func thing(kind string, id int, name, status string) string {
	return fmt.Sprintf(`{"id":%d,"url":"https://inventory.example.com/api/%ss/%d/","display":%q,"name":%q,"slug":%q,`+
		`"status":{"value":%q,"label":%q},"tenant":{"id":%d,"name":"Tenant %d"},"description":"","comments":"","tags":[],"custom_fields":{},`+
		`"created":"2026-01-01T00:00:00Z","last_updated":"2026-01-01T00:00:00Z"}`,
		id, kind, id, name, name, strings.ToLower(name), status, strings.ToUpper(status[:1])+status[1:], id%4, id%4)
}

func (s *inventory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	kind := strings.TrimSuffix(strings.Trim(r.URL.Path, "/"), "s")
	var asked struct {
		Name  string
		Names []string
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&asked) != nil {
		http.Error(w, `{"error":"no JSON"}`, http.StatusBadRequest)
		return
	}
	make := func(kind, name string) string {
		s.last++
		s.made[kind]++
		return thing(kind, s.last, name, "active")
	}
	switch {
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"count":%d,"next":null,"previous":null,"results":[%s]}`, manyDevices, listed())
	case kind == "devices/bulk":
		w.WriteHeader(http.StatusCreated)
		var all []string
		for _, name := range asked.Names {
			all = append(all, make("device", name))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(all, ","))
	default:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, make(kind, asked.Name))
	}
}

// manyDevices is the number of devices that are listed. Every fiftieth of them is offline.
const manyDevices = 500

// listed returns the devices of the list as JSON objects, separated by commas.
func listed() string {
	all := make([]string, manyDevices)
	for i := range all {
		status := "active"
		if i%50 == 7 {
			status = "offline"
		}
		all[i] = thing("device", i+1, "device-"+strconv.Itoa(i+1), status)
	}
	return strings.Join(all, ",")
}
