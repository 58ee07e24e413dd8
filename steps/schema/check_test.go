package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

const grepSchema = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string","default":"."},
	"limit":{"type":"integer","minimum":1,"maximum":1000,"default":100},"mode":{"enum":["lines","files","counts"]},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
	"who":{"anyOf":[{"type":"string","pattern":"^@"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],
	"additionalProperties":false}]},
	"port":{"oneOf":[{"type":"integer"},{"type":"null"}]},"kind":{"oneOf":[{"const":"a"},{"type":"string","maxLength":3}]}},
	"required":["pattern"],"dependentRequired":{"mode":["path"]},"additionalProperties":false}`

func TestCheckReports(t *testing.T) {
	t.Parallel()
	e, _ := entry(grepSchema, "")
	tests := []struct {
		args string
		want []string // "at|message", sorted by place
	}{
		{`{"pattern":"x"}`, nil},
		{`{"pattern":"x","labels":["a","b"],"who":{"id":1},"port":null,"kind":"abc","mode":"files","path":"."}`, nil},
		{`{}`, []string{`|missing "pattern"`}},
		{`{"patern":"x"}`, []string{`/patern|/patern: unknown argument, did you mean "pattern"?`}},
		{`{"xx":"y"}`, []string{`/xx|/xx: unknown argument`, `|missing "pattern"`}},
		{`{"pattern":5,"limit":0}`, []string{`/limit|/limit: want at least 1`, `/pattern|/pattern: got number, want string`}},
		{`{"pattern":"x","limit":1.5}`, []string{`/limit|/limit: got number, want integer`}},
		{`{"pattern":"x","limit":1001}`, []string{`/limit|/limit: want at most 1000`}},
		{`{"pattern":""}`, []string{`/pattern|/pattern: has 0 characters, want at least 1`}},
		{`{"pattern":"x","mode":"line","path":"a"}`, []string{`/mode|/mode: got "line", want "lines" or "files" or "counts"`}},
		{`{"pattern":"x","mode":"lines"}`, []string{`|"mode" needs "path" too`}},
		{`{"pattern":"x","labels":["a",1]}`, []string{`/labels/1|/labels/1: got number, want string`}},
		{`{"pattern":"x","labels":["a","a"]}`, []string{`/labels|/labels: the elements 0 and 1 are equal`}},
		{`{"pattern":"x","labels":["a","b","c"]}`, []string{`/labels|/labels: has 3 elements, want at most 2`}},
		{`{"pattern":"x","who":5}`, []string{`/who|/who: got number, want object or string`}},
		{`{"pattern":"x","who":{"id":"1"}}`,
			[]string{`/who|/who: fits none of 2 alternatives: (1) got object, want string; (2) /id: got string, want integer`}},
		{`{"pattern":"x","who":"bob"}`,
			[]string{`/who|/who: fits none of 2 alternatives: (1) does not match the pattern ^@; (2) got string, want object`}},
		{`{"pattern":"x","port":"x"}`, []string{`/port|/port: got string, want integer or null`}},
		{`{"pattern":"x","kind":"a"}`, []string{`/kind|/kind: fits the alternatives 1 and 2, but must fit one only`}},
		{`[]`, []string{`|the arguments are no JSON object`}},
		{`{"pattern":"x","pattern":"y"}`, []string{`/pattern|/pattern: the key "pattern" occurs twice`}},
	}
	for _, test := range tests {
		var got []string
		for _, f := range e.Check([]byte(test.args), nil) {
			if f.Code != fault.BadArguments {
				t.Errorf("%s: code %s", test.args, f.Code)
			}
			got = append(got, f.At+"|"+f.Message)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s\n got %q\nwant %q", test.args, got, test.want)
		}
	}
}

func TestCheckSuggests(t *testing.T) {
	t.Parallel()
	e, _ := entry(grepSchema, "")
	f := e.Check([]byte(`{"pattern":"x","pth":"."}`), nil)[0]
	if !slices.Contains(f.Available, "path") || len(f.Nearest) == 0 || f.Nearest[0] != "path" {
		t.Errorf("unknown property: %+v", f)
	}
	f = e.Check([]byte(`{}`), nil)[0]
	if !slices.Contains(f.Available, "pattern") {
		t.Errorf("missing property: %+v", f)
	}
	f = e.Check([]byte(`{"pattern":"x","path":".","mode":"line"}`), nil)[0]
	if !slices.Equal(f.Available, []string{"lines", "files", "counts"}) || !slices.Equal(f.Nearest, []string{"lines"}) {
		t.Errorf("enum: %+v", f)
	}
}

func TestCheckWithUnknowns(t *testing.T) {
	t.Parallel()
	e, _ := entry(`{"type":"object","properties":{
		"s":{"type":"string","enum":["a","b"]},"n":{"type":"number"},"i":{"type":"integer","minimum":5},"p":{"type":"string",
		"pattern":"^x","minLength":3},
		"o":{"type":"object","properties":{"k":{"type":"integer"}},"required":["k"],"additionalProperties":false},
		"l":{"type":"array","items":{"type":"integer"},"maxItems":2,"uniqueItems":true,"contains":{"const":1}},
		"u":{"anyOf":[{"type":"string"},{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}]},
		"x":{"oneOf":[{"type":"integer"},{"type":"number","minimum":3}]},"c":{"const":{"a":1}},"never":false,"not":{"not":{"type":"string"}},
		"if":{"if":{"properties":{"t":{"const":1}}},"then":{"required":["v"]},"else":{"required":["w"]}},
		"un":{"properties":{"a":{"const":1}},"anyOf":[{"properties":{"b":true},"required":["b"]},true],"unevaluatedProperties":false},
		"uk":{"anyOf":[{"properties":{"kind":{"const":"k"},"v":true},"required":["kind"]},true],"unevaluatedProperties":false},
		"ul":{"anyOf":[{"prefixItems":[{"const":"k"},true]},true],"unevaluatedItems":false}},
		"additionalProperties":false,"maxProperties":3}`, "")
	tests := []struct {
		args, at string
		types    []string
		want     string // part of the message of the only fault; "" for none
	}{
		{`{"s":"$0"}`, "/s", nil, ""},
		{`{"s":"$0"}`, "/s", []string{"string"}, ""},
		{`{"s":"$0"}`, "/s", []string{"integer"}, "/s: got number, want string"},
		{`{"s":"$0"}`, "/s", []string{"null", "string"}, ""},
		{`{"s":"$0"}`, "/s", []string{"null", "object"}, "want string"},
		{`{"n":"$0"}`, "/n", []string{"integer"}, ""},
		{`{"i":"$0"}`, "/i", []string{"number"}, ""},
		{`{"i":"$0"}`, "/i", []string{"string"}, "want integer"},
		{`{"i":"$0"}`, "/i", []string{"what"}, ""},
		{`{"p":"a${$0}"}`, "/p", []string{"string"}, ""},
		{`{"o":"$0"}`, "/o", nil, ""},
		{`{"o":"$0"}`, "/o", []string{"object"}, ""},
		{`{"o":"$0"}`, "/o", []string{"array"}, "want object"},
		{`{"o":{"k":"$0"}}`, "/o/k", nil, ""},
		{`{"o":{"k":"$0"}}`, "/o/k", []string{"string"}, "/o/k: got string, want integer"},
		{`{"o":{"j":"$0"}}`, "/o/j", []string{"integer"}, "|"},
		{`{"l":["$0",1]}`, "/l/0", nil, ""},
		{`{"l":["$0",2,3]}`, "/l/0", nil, "has 3 elements"},
		{`{"l":["$0","x"]}`, "/l/0", nil, "/l/1: got string"},
		{`{"l":"$0"}`, "/l", []string{"array"}, ""},
		{`{"u":"$0"}`, "/u", nil, ""},
		{`{"u":"$0"}`, "/u", []string{"integer"}, "got number, want object or string"},
		{`{"u":"$0"}`, "/u", []string{"object"}, ""},
		{`{"u":{"id":"$0"}}`, "/u/id", nil, ""},
		{`{"u":{"id":"$0"}}`, "/u/id", []string{"string"}, "fits none of 2"},
		{`{"u":{"i":"$0"}}`, "/u/i", nil, "fits none of 2"},
		{`{"x":"$0"}`, "/x", []string{"number"}, ""},
		{`{"x":"$0"}`, "/x", []string{"string"}, "want integer or number"},
		{`{"c":"$0"}`, "/c", nil, ""},
		{`{"c":{"a":"$0"}}`, "/c/a", nil, ""},
		{`{"c":"$0"}`, "/c", []string{"array"}, "want"},
		{`{"never":"$0"}`, "/never", nil, "not allowed"},
		{`{"not":"$0"}`, "/not", nil, ""},
		{`{"not":"$0"}`, "/not", []string{"string"}, ""},
		{`{"if":{"t":"$0"}}`, "/if/t", nil, ""},
		{`{"un":{"a":1,"b":"$0"}}`, "/un/b", nil, ""},
		{`{"un":{"a":"$0","z":1}}`, "/un/a", nil, ""},
		{`{"uk":{"kind":"$0","v":1}}`, "/uk/kind", nil, ""},
		{`{"ul":["$0",1]}`, "/ul/0", nil, ""},
		{`{"z":"$0"}`, "/z", nil, "unknown argument"},
		{`{"s":"$0","n":1,"i":7,"x":3.5}`, "/s", nil, "has 4 keys"},
		{`{"s":"$0"}`, "", nil, ""},
		{`{"n":"x"}`, "/s/0/none", nil, "/n: got string"},
	}
	for _, test := range tests {
		var got []string
		for _, f := range e.Check([]byte(test.args), []Unknown{{At: test.at, Types: test.types}}) {
			got = append(got, f.Message)
		}
		switch {
		case test.want == "|":
			if len(got) != 2 {
				t.Errorf("%s with %s %v: %q", test.args, test.at, test.types, got)
			}
		case test.want == "" && len(got) > 0, test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
			t.Errorf("%s with %s %v: %q, want %q", test.args, test.at, test.types, got, test.want)
		}
	}
}
