package search

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
)

func answer(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }

func function(name, description string, arguments ...string) steps.Function {
	schema := `{"type":"object","properties":{`
	for i, argument := range arguments {
		if i > 0 {
			schema += ","
		}
		schema += fmt.Sprintf(`%q:{"type":"string"}`, argument)
	}
	return steps.Function{Spec: steps.Spec{Name: name, Description: description, Input: []byte(schema + "}}")}, Call: answer}
}

var shop = []steps.Function{
	function("shop.item.list", "Lists the items that are for sale.", "limit", "colour"),
	function("shop.item.create", "Creates an item.", "name"),
	function("shop.item.delete", "Deletes an item for good.", "itemId"),
	function("shop.order.list", "Lists the orders of a customer.", "customerId"),
	function("shop.order.cancel", "Cancels an order.", "orderId"),
	function("shop.getShippingLabel", "The label of a parcel, as a picture.", "orderId"),
	function("mail.send", "Sends a message to customers.", "subject", "body"),
	function("mail.repository_sync", "Synchronises a repository.", "branch"),
}

// finds checks the results of queries: the names of functions, best first; "": nothing.
func finds(t *testing.T, x *Index, wanted map[string]string) {
	t.Helper()
	for query, want := range wanted {
		if got := strings.Join(names(x.Find(query, nil, 0)), " "); got != want {
			t.Errorf("%q finds %q, not %q", query, got, want)
		}
	}
}

// TestWholeNames: a function whose name, or its end after a dot, has exactly the words of the query comes first, whatever the others'
// descriptions say.
func TestWholeNames(t *testing.T) {
	t.Parallel()
	x := New(registry(t,
		function("netbox.dcim.device.list", "Get a list of objects."),
		function("netbox.dcim.device_bay.list", "List devices: list the devices of device bays."),
		function("netbox.dcim.device.create", "Creates list entries of devices."),
		function("crm.contact.get_by_id", "One record."),
		function("crm.contact.id.note", "Get the id by which a contact is known: get an id of a contact by contact."),
	))
	for query, want := range map[string]string{
		"list devices":        "netbox.dcim.device.list",
		"device list":         "netbox.dcim.device.list",
		"dcim devices list":   "netbox.dcim.device.list",
		"list device bays":    "netbox.dcim.device_bay.list",
		"get a contact by id": "crm.contact.get_by_id",
	} {
		hits := x.Find(query, nil, 0)
		if len(hits) == 0 || hits[0].Entry.Spec().Name != want {
			t.Errorf("%q finds %q, want %s first", query, names(hits), want)
		}
		if len(hits) > 1 && hits[0].Score <= hits[1].Score {
			t.Errorf("%q: the scores of %q do not say their order", query, names(hits))
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	functions := slices.Clone(shop)
	functions[1].Keywords = []string{"addArticle", "POST /v1/articles"}
	functions[4].Input = []byte(`{"properties":{"reason":{"enum":["mistake","tooLate"],"description":"why the purchase is void"}}}`)
	x := New(registry(t, functions...))
	for query, want := range map[string]string{
		"item list":               "shop.item.list",
		"LIST ITEMS":              "shop.item.list",
		"listing of items":        "shop.item.list",
		"listItems":               "shop.item.list",
		"remove item":             "shop.item.delete", // a synonym
		"repo":                    "mail.repository_sync",
		"shipping":                "shop.getShippingLabel",
		"get-shipping-label":      "shop.getShippingLabel",
		"shipping lable":          "shop.getShippingLabel",
		"cancle order":            "shop.order.cancel", // swapped neighbors
		"ordres cancel":           "shop.order.cancel",
		"parcle":                  "shop.getShippingLabel",
		"custmer orders":          "shop.order.list",
		"shippinglabel":           "shop.getShippingLabel", // joined
		"ship ping":               "shop.getShippingLabel", // split
		"synchro":                 "mail.repository_sync",  // the beginning of a word
		"colour":                  "shop.item.list",        // an argument
		"too late":                "shop.order.cancel",     // a value
		"void purchase":           "shop.order.cancel",     // an argument's description
		"article":                 "shop.item.create",      // a keyword
		"the message":             "mail.send",
		"shop.order.list":         "shop.order.list",
		"orderList":               "shop.order.list",
		"addarticle":              "shop.item.create",
		"could you send the mail": "mail.send",
		"that are":                "shop.item.list", // it has only stop words
	} {
		if got := names(x.Find(query, nil, 0)); len(got) == 0 || got[0] != want {
			t.Errorf("%q finds %v, want %s", query, got, want)
		}
	}
	finds(t, x, map[string]string{"": "", " ": "", "?!": "", "zzzzqqqq": "", "xy": "", "\xff\xfe": ""})
}

// TestMisspeltForms: a word with a mistake is found even if functions have only another form of it.
func TestMisspeltForms(t *testing.T) {
	t.Parallel()
	x := New(registry(t, function("hub.getIssues", "All that is open."), function("hub.getRepositories", "All that are here."),
		function("hub.getIsbn", "Of a book."), function("hub.running", "What runs.")))
	finds(t, x, map[string]string{
		"isue": "hub.getIssues", "issu": "hub.getIssues", "repositry": "hub.getRepositories", "reposittory": "hub.getRepositories",
		"isk": "", "isxe": "", "repxsxtxy": "", "rumly": "",
	})
}

// TestTitle: an MCP tool is found by its title, wherever the server puts it.
func TestTitle(t *testing.T) {
	t.Parallel()
	functions := slices.Clone(shop)
	functions[1].Listing = []byte(`{"name":"create","title":"Stock a novelty"}`)
	functions[2].Listing = []byte(`{"name":"delete","annotations":{"title":"Throw away"}}`)
	x := New(registry(t, functions...))
	finds(t, x, map[string]string{"novelties": "shop.item.create", "throw": "shop.item.delete"})
}

// TestFewHits: functions far behind the best are no hits, and a known word is not corrected to another.
func TestFewHits(t *testing.T) {
	t.Parallel()
	x := New(registry(t, append(slices.Clone(shop), function("net.pong", "Answers."))...))
	finds(t, x, map[string]string{
		"cancel the order": "shop.order.cancel shop.order.list", // but no orderId
		"ship ping":        "shop.getShippingLabel",
	})
}

// TestHidden: the names and words of hidden functions do not change the results.
func TestHidden(t *testing.T) {
	t.Parallel()
	r := registry(t, append(slices.Clone(shop), function("secret.shipment", "Hidden."), function("open.shiprent", "Seen."),
		function("secret.item.list", "Hidden."))...)
	keep := func(spec *steps.Spec) bool { return spec.Source() != "secret" }
	for query, want := range map[string]string{"shipmxnt": "open.shiprent", "secret.item.list": "shop.item.list",
		"item.list": "shop.item.list"} {
		all, view := New(r).Find(query, keep, 0), New(r.View(keep)).Find(query, nil, 0)
		if !slices.Equal(all, view) || names(all)[0] != want {
			t.Errorf("%q finds %v in the registry, %v in the view; want %s first in both", query, names(all), names(view), want)
		}
	}
}

// A query that is a function's name finds only that function, or several if they share the name.
func TestFindByName(t *testing.T) {
	t.Parallel()
	functions := slices.Clone(shop)
	functions[1].Keywords = []string{"items/add-one"}
	x := New(registry(t, append(functions, function("depot.item.list", "Lists what is there."))...))
	finds(t, x, map[string]string{
		"shop.item.list":   "shop.item.list",
		"Shop_Item_List":   "shop.item.list",
		"item.list":        "depot.item.list shop.item.list",
		"itemList":         "depot.item.list shop.item.list",
		"items/add-one":    "shop.item.create",
		"getShippingLabel": "shop.getShippingLabel",
	})
	if got := names(x.Find(" shop.order.list\n", nil, 0)); !slices.Equal(got, []string{"shop.order.list"}) {
		t.Errorf("a name between spaces finds %v, want shop.order.list", got)
	}
	if got := x.Find("list", nil, 0); len(got) < 3 {
		t.Errorf("the last word of several names finds %v, want at least 3", names(got))
	}
	if got := names(x.Find("item.list", nil, 1)); !slices.Equal(got, []string{"depot.item.list"}) {
		t.Errorf("with a limit of 1: got %v, want depot.item.list", got)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var functions []steps.Function
	for _, name := range []string{"c.run", "a.run", "d.run", "b.run", "e.walk"} {
		functions = append(functions, function(name, "The same."))
	}
	x := New(registry(t, functions...))
	if got := names(x.Find("run", nil, 0)); !slices.Equal(got, []string{"a.run", "b.run", "c.run", "d.run"}) {
		t.Errorf("functions of equal score are ordered %v, want a.run to d.run", got)
	}
	if got := names(x.Find("run", nil, 2)); !slices.Equal(got, []string{"a.run", "b.run"}) {
		t.Errorf("with a limit of 2: got %v, want a.run and b.run", got)
	}
	if got := New(registry(t)).Find("run", nil, 0); len(got) != 0 {
		t.Errorf("an empty registry finds %v, want none", names(got))
	}
}

// TestView: a caller finds, including scores, what it would find if the registry contained only the functions that the caller may use.
func TestView(t *testing.T) {
	t.Parallel()
	vocabulary := strings.Fields("item items order orders list delete create customer label labels branch branches repository repo " +
		"secret secrets token run runner")
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom(vocabulary)
		text := rapid.Map(rapid.SliceOfN(word, 1, 4), func(words []string) string { return strings.Join(words, "_") })
		prose := rapid.Map(rapid.SliceOfN(word, 0, 9), func(words []string) string { return strings.Join(words, " ") })
		var functions []steps.Function
		hidden := map[string]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "functions") {
			fn := function(fmt.Sprintf("s%d.%s", i%3, text.Draw(t, "name")), prose.Draw(t, "description"), text.Draw(t, "argument"))
			fn.Keywords = []string{text.Draw(t, "keyword")}
			if slices.ContainsFunc(functions, func(other steps.Function) bool { return other.Name == fn.Name }) {
				continue
			}
			functions = append(functions, fn)
			hidden[fn.Name] = rapid.Bool().Draw(t, "hidden")
		}
		r, err := steps.NewRegistry(functions, nil)
		if err != nil {
			t.Fatal(err)
		}
		keep := func(spec *steps.Spec) bool { return !hidden[spec.Name] }
		query := rapid.OneOf(prose, text, rapid.Map(prose, func(text string) string { return misspell(t, text) })).Draw(t, "query")
		all, view := New(r).Find(query, keep, 0), New(r.View(keep)).Find(query, nil, 0)
		if len(all) != len(view) {
			t.Fatalf("%q finds %v in the view, want %v as in the registry", query, names(view), names(all))
		}
		for i := range all {
			if all[i] != view[i] {
				t.Fatalf("%q finds %v in the view, want %v as in the registry", query, view[i], all[i])
			}
			if hidden[all[i].Entry.Spec().Name] {
				t.Fatalf("%q finds %s, which is hidden", query, all[i].Entry.Spec().Name)
			}
		}
	})
}

func misspell(t *rapid.T, text string) string {
	if len(text) < 2 {
		return text
	}
	at := rapid.IntRange(0, len(text)-2).Draw(t, "at")
	return text[:at] + text[at+1:at+2] + text[at:at+1] + text[at+2:]
}

func TestConcurrentFind(t *testing.T) {
	t.Parallel()
	x := New(registry(t, shop...))
	want := x.Find("cancle the ordr", nil, 0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if got := x.Find("cancle the ordr", nil, 0); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", names(got), names(want))
				}
			}
		})
	}
	group.Wait()
}

func FuzzFind(f *testing.F) {
	for _, query := range []string{"", "list items", "shop.item.list", "ünï 列出", "\xff\x00", "aaaaaaaaaaaaaa", "getOAuthTokens2 s3bucket",
		strings.Repeat("ab ", 500)} {
		f.Add(query)
	}
	x := New(registry(f, shop...))
	f.Fuzz(func(t *testing.T, query string) {
		hits := x.Find(query, func(spec *steps.Spec) bool { return spec.Source() == "shop" }, 0)
		for i, hit := range hits {
			switch {
			case hit.Entry.Spec().Source() != "shop":
				t.Fatalf("%q finds a hidden function", query)
			case !(hit.Score > 0) || math.IsInf(hit.Score, 0), i > 0 && hit.Score > hits[i-1].Score:
				t.Fatalf("%q: the score %v at position %d is not positive, or above the one before it", query, hit.Score, i)
			}
		}
	})
}

// TestOperationID: an operation of an OpenAPI document is found by its operationId, and by its method and path.
func TestOperationID(t *testing.T) {
	t.Parallel()
	s, err := openapi.New(&openapi.Options{Name: "rules", Spec: "../source/openapi/testdata/swagger20.json", BaseURL: "http://127.0.0.1",
		Client: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, keywords := New(registry(t, s.Functions()...)), 0
	for _, fn := range s.Functions() {
		for _, keyword := range fn.Keywords {
			keywords++
			if got := names(x.Find(keyword, nil, 5)); !slices.Contains(got, fn.Name) {
				t.Errorf("%q finds %v, want %s", keyword, got, fn.Name)
			}
		}
	}
	if keywords <= len(s.Functions()) {
		t.Errorf("%d operations have %d keywords, want more", len(s.Functions()), keywords)
	}
}
