package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

const inventoryCorpus = "(c), (d), (e): an inventory of sites, racks and devices, a service of this comparison on loopback with an " +
	"OpenAPI document; an object has some 90 tokens"

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

// lite compares the answers to a hundred provisioning steps.
func (b *bench) lite(ctx context.Context) error {
	s, err := b.startInventory(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	b.corpus(inventoryCorpus)
	steps := strings.Join(provisioning(), ",")
	answer := func(options string) (int, error) {
		before := s.chain.spent.read
		text, err := s.chain.call(ctx, b.count, "chain", `{"steps":[`+steps+`],"return":{"site":"$s0.id","last":"$c47.id"}`+options+`}`)
		if err == nil && !strings.Contains(text, `"last":`) {
			err = fmt.Errorf("no result: %.500s", text)
		}
		return s.chain.spent.read - before, err
	}
	lean, err := answer(`,"lite":true`)
	if err != nil {
		return err
	}
	standard, err := answer(``)
	if err != nil {
		return err
	}
	if err := s.provisionBare(ctx, b.count); err != nil {
		return err
	}
	if total := s.last; total != 300 {
		return fmt.Errorf("%d objects after three times a hundred steps", total)
	}
	bare := s.flat.spent.read
	b.table("(c) A hundred provisioning steps: the answers", []string{"", "round trips", "side by side, at least", "read"},
		row("one by one", number(s.flat.spent.calls), number(len(kinds)), tokensOf(bare)),
		row("one chain", number(1), number(1), tokensOf(standard)), row("one chain, `lite`", number(1), number(1), tokensOf(lean)))
	b.tokenFigure("lite/full", "answer to 100 provisioning steps: lite / standard", lean, standard, 0)
	b.countFigure("lite/tokens", "answer to 100 provisioning steps, lite", lean)
	b.countFigure("lite/standard-tokens", "answer to 100 provisioning steps, standard", standard)
	return nil
}

// provisionBare makes the calls of provisioning one by one.
func (s *inventoryServers) provisionBare(ctx context.Context, c *counter) error {
	ids := map[string]string{}
	for _, step := range provisioning() {
		one := gjson.Parse(step)
		args := one.Get("args").Raw
		for id, value := range ids {
			args = strings.ReplaceAll(args, `"$`+id+`.id"`, value)
		}
		text, err := s.flat.call(ctx, c, strings.ReplaceAll(one.Get("fn").Str, ".", "_"), args)
		if err != nil {
			return err
		}
		ids[one.Get("id").Str] = gjson.Get(text, "id").Raw
	}
	return nil
}

// large reads five hundred objects in every way that onecall offers.
func (b *bench) large(ctx context.Context) error {
	s, err := b.startInventory(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	full, err := s.flat.call(ctx, b.count, "inventory_device_list", `{}`)
	if err != nil {
		return err
	}
	if n := gjson.Get(full, "results.#").Int(); n != manyDevices {
		return fmt.Errorf("%d devices", n)
	}
	var read []int
	ask := func(args string, check func(answer gjson.Result) bool) error {
		before := s.chain.spent.read
		text, err := s.chain.call(ctx, b.count, "chain", args)
		if err == nil && !check(gjson.Parse(text)) {
			err = fmt.Errorf("%s: %.500s", args, text)
		}
		read = append(read, s.chain.spent.read-before)
		return err
	}
	var token string
	err = ask(`{"steps":[{"fn":"inventory.device.list"}],"lite":true}`, func(probe gjson.Result) bool {
		token = probe.Get("continuation_token").String()
		return strings.HasPrefix(token, "oc1_")
	})
	for _, fetch := range []struct {
		args  string
		check func(gjson.Result) bool
	}{
		{`"mode":"paginated","page":1,"page_size":20`, func(a gjson.Result) bool { return a.Get("items.#").Int() == 20 }},
		{`"mode":"filtered","filter_keys":["results.name","results.status.value"]`, func(a gjson.Result) bool {
			return a.Get("results.#").Int() == manyDevices
		}},
		{`"mode":"query","query":"map(filter($result.results, .status.value == 'offline'), .name)"`, func(a gjson.Result) bool {
			return a.Get("#").Int() == 10 && a.Get("0").Str == "device-8"
		}},
	} {
		if err == nil {
			err = ask(`{"continuation_token":"`+token+`",`+fetch.args+`,"lite":true}`, fetch.check)
		}
	}
	if err != nil {
		return err
	}
	flatRead := s.flat.spent.read
	rows := []report.Row{row("the full result", tokensOf(flatRead), words("–"))}
	for i, name := range []string{"a probe", "a page of 20", "two fields of each, by `filtered`",
		"the names of the 10 offline ones, by `query`"} {
		rows = append(rows, row(name, tokensOf(read[i]), report.Share(read[i], flatRead)))
	}
	b.table("(d) Five hundred objects: what is read", []string{"", "read", "of the full result"}, rows...)
	b.tokenFigure("large/probe-query", "the 10 of 500 objects that are offline: probe and query / the full result", read[0]+read[3],
		flatRead, 0)
	b.countFigure("large/probe", "probe of 500 objects", read[0])
	return nil
}

// write makes sixty objects in one call.
func (b *bench) write(ctx context.Context) error {
	s, err := b.startInventory(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprint("device-", i+1)
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	args := `{"names":` + string(list) + `}`
	if _, err := s.flat.call(ctx, b.count, "inventory_device_bulk_create", args); err != nil {
		return err
	}
	request := `{"steps":[{"fn":"inventory.device.bulk_create","args":` + args + `}],"lite":true`
	text, err := s.chain.call(ctx, b.count, "chain", request+`}`)
	if err != nil {
		return err
	}
	if gjson.Get(text, "accepted").Int() != 60 {
		return fmt.Errorf("not lean: %.500s", text)
	}
	lean := s.chain.spent.read
	text, err = s.chain.call(ctx, b.count, "chain", request+`,"verify":true}`)
	if err != nil {
		return err
	}
	if gjson.Get(text, "#").Int() != 60 || s.made["device"] != 180 {
		return fmt.Errorf("%d devices; %.500s", s.made["device"], text)
	}
	verified, flat := s.chain.spent.read-lean, s.flat.spent.read
	b.table("(e) A write of sixty objects: the answer", []string{"", "read", "of the full answer"},
		row("the service's, by a flat tool", tokensOf(flat), words("–")),
		row("a chain with `verify`", tokensOf(verified), report.Share(verified, flat)),
		row("a chain, lean", tokensOf(lean), report.Share(lean, flat)))
	b.tokenFigure("write/lean", "answer to a write of 60 objects: lean / full", lean, flat, 0)
	b.countFigure("write/tokens", "answer to a write of 60 objects, lean", lean)
	b.countFigure("write/full-tokens", "answer to a write of 60 objects, full", flat)
	return nil
}
