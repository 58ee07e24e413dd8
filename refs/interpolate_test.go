package refs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestMentions: a text with what reads as a reference to something that exists is a fault with both remedies.
func TestMentions(t *testing.T) {
	t.Parallel()
	for text, remedies := range map[string][2]string{
		`see $0.name`:             {"${$0.name}", "$$0.name"},
		`about $0.name`:           {"${$0.name}", "$$0.name"},
		`see $0[1]`:               {"${$0[1]}", "$$0[1]"},
		`see $0?.name.`:           {"${$0?.name}", "$$0?.name"},
		`a$0["x y"].b, c`:         {`${$0["x y"].b}`, `$$0["x y"].b`},
		`about $search.total`:     {"${$search.total}", "$$search.total"},
		`see $search`:             {"${$search}", "$$search"},
		`I mean $search.`:         {"${$search}", "$$search"},
		`see $item.id`:            {"${$item.id}", "$$item.id"},
		`see $item`:               {"${$item}", "$$item"},
		`$${x} $index`:            {"${$index}", "$$index"},
		`see $prev.x now`:         {"${$prev.x}", "$$prev.x"},
		`see $result.done`:        {"${$result.done}", "$$result.done"},
		`hello $input.who!`:       {"${$input.who}", "$$input.who"},
		`hello ${input.who}!`:     {"${$input.who}", "$${input.who}"},
		`hello ${input["who"]}`:   {`${$input["who"]}`, `$${input["who"]}`},
		`a ${search.total}`:       {"${$search.total}", "$${search.total}"},
		`a ${search}`:             {"${$search}", "$${search}"},
		`${item}`:                 {"${$item}", "$${item}"},
		`a ${item}`:               {"${$item}", "$${item}"},
		`a ${item?.x ?? 1}`:       {"${$item?.x}", "$${item?.x}"},
		`a ${index ?? 1}`:         {"${$index}", "$${index}"},
		`a ${prev}`:               {"${$prev}", "$${prev}"},
		`a ${prev[0]`:             {"${$prev[0]}", "$${prev[0]}"},
		`see $$$0.name`:           {"${$0.name}", "$$0.name"},
		`$$$0.name`:               {"${$0.name}", "$$0.name"},
		`$$${item}`:               {"${$item}", "$${item}"},
		`${$0.name} is $0.total`:  {"${$0.total}", "$$0.total"},
		`$${0.total} is $0.total`: {"${$0.total}", "$$0.total"},
	} {
		p := scope()
		p.Input = func(key string) bool { return key == "who" }
		value, _ := json.Marshal(text)
		_, faults := CompileTemplate(value, p)
		if len(faults) != 1 || faults[0].Code != fault.BadReference || faults[0].Source[faults[0].Offset] != '$' {
			t.Errorf("%s: faults %v, want one", text, faults)
			continue
		}
		for _, want := range []string{"Write " + remedies[0] + " to insert", " " + remedies[1] + " for the text", "input"} {
			if !strings.Contains(faults[0].Message, want) {
				t.Errorf("%s: %s; want %q", text, faults[0].Message, want)
			}
		}
	}
}

// TestNoMentions: texts that stay as they are, because nothing has that name here or no reference is written so.
func TestNoMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`price $5`: ``, `US$0.50`: ``, `s/(x)/$1/`: ``, `awk '{print $0}'`: ``, `$$0.50`: `$0.50`, `it is $0.`: ``, `$ 0.name`: `fault`,
		`see $4.name`: ``, `see $later.name`: ``, `a ${later[0]}`: ``, `a ${HOME}`: ``, `a ${searching.total}`: ``, `a $searching`: ``,
		`for $items and $indexOf`: ``, `a $item_s`: ``, "a $item\u00e9": ``, `see $prev`: ``, `see $input`: ``, `see $input.other`: ``,
		`hi ${input.other}`: ``, `hi ${input}`: ``, `a ${item-x}`: ``, `a ${item`: ``, `${0}`: ``, `$0[i]`: `fault`, `a $0[i]`: ``, `a $0["x`: ``,
		`a $state.x $secret.x`: ``, `a $prevent.x`: ``, `a $01.x`: ``, `a $$b`: ``, `a $$5 $$HOME`: ``,
		`see $$0.name`: `see $0.name`, `$$0.name`: `$0.name`, `a $$$$0.name`: `a $$0.name`, `a $$item`: `a $item`, `$$${$index}`: `$2`,
		`a $${item} $$search.x`: `a ${item} $search.x`, `$${input.who}`: `${input.who}`, `x $${$0.name}`: `x ${$0.name}`,
	} {
		if want == "" {
			want = strings.ReplaceAll(text, `\u00e9`, "é")
		}
		p := scope()
		p.Input = func(key string) bool { return key == "who" }
		tpl, faults := CompileTemplate([]byte(`"`+strings.ReplaceAll(strings.ReplaceAll(text, `"`, `\"`), `\\`, `\`)+`"`), p)
		if want == "fault" {
			if len(faults) != 1 {
				t.Errorf("%s: faults %v, want one", text, faults)
			}
			continue
		}
		if len(faults) > 0 {
			t.Errorf("%s: %v", text, faults[0])
			continue
		}
		out, err := tpl.Resolve(context.Background(), nil, scopeOf(compact, `[1]`, `1`))
		var got string
		if err != nil || json.Unmarshal(out, &got) != nil || got != want {
			t.Errorf("%s gives %s, %v; want %s", text, out, err, want)
		}
	}
	outside := CompileScope{At: "/args", Step: 1, Steps: 2}
	for _, text := range []string{`for ${item}`, `for $item and $index`, `see $search.total`, `see $result.x`, `see $1.x`, `hi $input.who`} {
		value, _ := json.Marshal(text)
		if tpl, faults := CompileTemplate(value, outside); len(faults) > 0 || string(tpl.Value()) != string(value) {
			t.Errorf("%s: %v, %s", text, faults, tpl.Value())
		}
	}
}

// TestTextRemedies: a whole string that is not a reference says how to write a text, unless it was clearly meant as a
// reference.
func TestTextRemedies(t *testing.T) {
	t.Parallel()
	const escape = "write $$."
	for text, want := range map[string]string{
		`$5`: escape, `$foo`: escape, `$HOME/bin`: escape, `$100-$200`: escape, `$01`: escape, `$`: escape, `$env.X`: escape, `$foo[`: escape,
		`$later.x`: "", `$4`: "", `$self`: "", `$3.a`: "", `$0..a`: "", `$0[abc]`: "", `$0.`: "", `$0.items|0`: "", `$0.a + 1`: "",
		`$0.a == "x"`:             "",
		`$0.name and $1`:          "write ${$0.name} and ${$1}. For a text that begins with a dollar, write $$.",
		`$0.items[0].id, $item!`:  "write ${$0.items[0].id}, ${$item}!. For",
		`$search.a b: $5, $later`: "write ${$search.a} b: $5, $later. For",
	} {
		value, _ := json.Marshal(text)
		_, faults := CompileTemplate(value, scope())
		if len(faults) != 1 || faults[0].Code != fault.BadReference {
			t.Errorf("%s: %v", text, faults)
			continue
		}
		if m := faults[0].Message; !strings.Contains(m, want) || want == "" && strings.Contains(m, "$$") {
			t.Errorf("%s: %s; want %q", text, m, want)
		}
	}
	// A name may hold spaces, so that this is a reference; what is there tells that a text was meant.
	_, err := compileWhole(t, `$0.items[0].id items`).Resolve(context.Background(), nil, scopeOf(compact))
	if e := wantCode(t, err, fault.ReferenceMissing); !strings.Contains(e.Message, "write ${$0.items[0].id} items.") {
		t.Error(e.Message)
	}
	_, err = compileWhole(t, `$0.Digital Camra`).Resolve(context.Background(), nil, scopeOf(compact))
	if e := wantCode(t, err, fault.ReferenceMissing); strings.Contains(e.Message, "text") || e.Nearest[0] != "Digital Camera" {
		t.Error(e.Message, e.Nearest)
	}
}
