package pipelines

import "testing"

func TestProgram(t *testing.T) {
	t.Parallel()
	for steps, want := range map[string]string{
		`[{"fn":"a"}]`: `return await tools.a();`,
		`[{"fn":"files.read","args":{"path":"x $0 y","n":1.50}},{"fn":"b","args":{}},
		{"fn":"my-tool","args":{"a b":["$0.items[2].id",null],"c":"$0.variants.115.id"}}]`: `const r0 = await tools.files.read({path: "x $0 y", n: 1.50});
await tools.b({});
return await tools["my-tool"]({"a b": [r0.items[2].id, null], c: r0.variants["115"].id});`,
		`[{"fn":"a"},{"fn":"b","args":{"x":"$0","price":"$ 5"}}]`: `const r0 = await tools.a();
return await tools.b({x: r0, price: "$ 5"});`,
	} {
		if got := program([]byte(steps), nil); got != want {
			t.Errorf("program of %s:\ngot\n%s\nwant\n%s", steps, got, want)
		}
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	for steps, want := range map[string]int{
		`[{"fn":"a"}]`: 1,
		`[{"fn":"a"},{"fn":"b"},{"fn":"c","args":{"x":["$0.y"]}},{"fn":"d","args":{"x":"$1"}}]`: 2,
		`[{"fn":"a"},{"fn":"b","args":{"x":"$0.y"}},{"fn":"c","args":{"x":"$0.y","z":"$1"}}]`:   3,
	} {
		if got := sideBySide([]byte(steps)); got != want {
			t.Errorf("sideBySide(%s) = %d, want %d", steps, got, want)
		}
	}
}
