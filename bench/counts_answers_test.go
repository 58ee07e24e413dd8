package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// serveInventory serves a new inventory by onecall twice.
func serveInventory(t *testing.T) (stock *inventory, chain, flat *served) {
	t.Helper()
	stock = &inventory{made: map[string]int{}}
	chain, flat = serveBoth(t, service{"inventory", inventoryDocument(), stock, ""})
	return stock, chain, flat
}

// provisioning returns a hundred steps. Each makes an object that refers to one of the level above: a site, 3 racks, 12 devices, 36
// interfaces, 48 cables.
func provisioning() (steps []string) {
	var ids [5][]string // ids of steps, by kind: s0; r0 to r2; d0 to d11; i0 to i35; c0 to c47
	for level, count := range []int{1, 3, 12, 36, 48} {
		for i := range count {
			kind, id := kinds[level], fmt.Sprintf("%s%d", kinds[level].name[:1], i)
			parent := ""
			if level > 0 {
				parent = fmt.Sprintf(`,%q:"$%s.id"`, kind.parent, ids[level-1][i%len(ids[level-1])])
			}
			steps = append(steps, fmt.Sprintf(`{"id":%q,"fn":"inventory.%s.create","args":{"name":"%s-%d"%s}}`, id, kind.name, kind.name, i, parent))
			ids[level] = append(ids[level], id)
		}
	}
	return steps
}

// countProvisioning compares the answers to a hundred provisioning steps.
func countProvisioning(t *testing.T, c *counts) {
	stock, chain, flat := serveInventory(t)
	request := `{"steps":[` + strings.Join(provisioning(), ",") + `],"return":{"site":"$s0.id","last":"$c47.id"}`
	lean, text := chain.reads("chain", request+`,"lite":true}`)
	standard, full := chain.reads("chain", request+`}`)
	for _, answer := range []string{text, full} {
		if !strings.Contains(answer, `"last":`) {
			t.Fatalf("no result: %.500s", answer)
		}
	}
	ids := map[string]string{}
	for _, step := range provisioning() { // one by one
		one := gjson.Parse(step)
		args := one.Get("args").Raw
		for id, value := range ids {
			args = strings.ReplaceAll(args, `"$`+id+`.id"`, value)
		}
		ids[one.Get("id").Str] = gjson.Get(flat.call(strings.ReplaceAll(one.Get("fn").Str, ".", "_"), args), "id").Raw
	}
	if stock.last != 300 {
		t.Fatalf("%d objects after three times a hundred steps, want 300", stock.last)
	}
	row := func(name string, trips, waves, read int) countRow {
		return countRow{name, []countCell{numberCell(trips), numberCell(waves), tokenCell(read)}}
	}
	c.table("A hundred provisioning steps: the answers", []string{"", "round trips", "side by side, at least", "read"},
		row("one by one", flat.spent.RoundTrips, len(kinds), flat.spent.Read), row("one chain", 1, 1, standard),
		row("one chain, `lite`", 1, 1, lean))
	c.ratio("lite/full", "answer to 100 provisioning steps: lite / standard", lean, standard)
	c.tokens("lite/tokens", "answer to 100 provisioning steps, lite", lean)
	c.tokens("lite/standard-tokens", "answer to 100 provisioning steps, standard", standard)
}

// countLarge reads five hundred objects in every way that onecall offers.
func countLarge(t *testing.T, c *counts) {
	_, chain, flat := serveInventory(t)
	full, text := flat.reads("inventory_device_list", `{}`)
	if n := gjson.Get(text, "results.#").Int(); n != manyDevices {
		t.Fatalf("%d devices, want %d", n, manyDevices)
	}
	probe, text := chain.reads("chain", `{"steps":[{"fn":"inventory.device.list"}],"lite":true}`)
	token := gjson.Get(text, "continuation_token").Str
	c.table("Five hundred objects: what is read", []string{"", "read", "of the full result"},
		countRow{"the full result", []countCell{tokenCell(full), {Text: "–"}}},
		countRow{"a probe", []countCell{tokenCell(probe), shareCell(probe, full)}})
	rows := &c.Tables[len(c.Tables)-1].Rows
	var last int
	for _, fetch := range []struct {
		name, args, path, want string
	}{
		{"a page of 20", `"mode":"paginated","page":1,"page_size":20`, "items.#", "20"},
		{"two fields of each, by `filtered`", `"mode":"filtered","filter_keys":["results.name","results.status.value"]`, "results.#", "500"},
		{"the names of the 10 offline ones, by `query`",
			`"mode":"query","query":"map(filter($result.results, .status.value == 'offline'), .name)"`, "[#,0]", `[10,"device-8"]`},
	} {
		last, text = chain.reads("chain", `{"continuation_token":"`+token+`",`+fetch.args+`,"lite":true}`)
		if got := gjson.Get(text, fetch.path).Raw; got != fetch.want {
			t.Fatalf("%s: got %s, want %s: %.500s", fetch.name, got, fetch.want, text)
		}
		*rows = append(*rows, countRow{fetch.name, []countCell{tokenCell(last), shareCell(last, full)}})
	}
	c.ratio("large/probe-query", "the 10 of 500 objects that are offline: probe and query / the full result", probe+last, full)
	c.tokens("large/probe", "probe of 500 objects", probe)
}

// countWrite makes sixty objects in one call.
func countWrite(t *testing.T, c *counts) {
	stock, chain, flat := serveInventory(t)
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprint("device-", i+1)
	}
	args, err := json.Marshal(map[string]any{"names": names})
	if err != nil {
		t.Fatal(err)
	}
	full, _ := flat.reads("inventory_device_bulk_create", string(args))
	request := `{"steps":[{"fn":"inventory.device.bulk_create","args":` + string(args) + `}],"lite":true`
	lean, text := chain.reads("chain", request+`}`)
	if gjson.Get(text, "accepted").Int() != 60 {
		t.Fatalf("not lean: %.500s", text)
	}
	verified, text := chain.reads("chain", request+`,"verify":true}`)
	if gjson.Get(text, "#").Int() != 60 || stock.made["device"] != 180 {
		t.Fatalf("%d devices, want 180; %.500s", stock.made["device"], text)
	}
	c.table("A write of sixty objects: the answer", []string{"", "read", "of the full answer"},
		countRow{"the service's, by a flat tool", []countCell{tokenCell(full), {Text: "–"}}},
		countRow{"a chain with `verify`", []countCell{tokenCell(verified), shareCell(verified, full)}},
		countRow{"a chain, lean", []countCell{tokenCell(lean), shareCell(lean, full)}})
	c.ratio("write/lean", "answer to a write of 60 objects: lean / full", lean, full)
	c.tokens("write/tokens", "answer to a write of 60 objects, lean", lean)
	c.tokens("write/full-tokens", "answer to a write of 60 objects, full", full)
}
