package refs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestParse(t *testing.T) {
	t.Parallel()
	name := func(key string) Segment { return Segment{Key: key, Kind: Name} }
	quoted := func(key string) Segment { return Segment{Key: key, Kind: Quoted} }
	at := func(i int) Segment { return Segment{Index: i, Kind: At} }
	optional := func(s Segment) Segment { s.Optional = true; return s }
	for text, want := range map[string]Reference{
		`$0`:                        {},
		`$12.a`:                     {step: 12, segments: []Segment{name("a")}},
		`$search.total`:             {id: "search", segments: []Segment{name("total")}},
		`$input`:                    {root: RootInput},
		`$item`:                     {root: RootItem},
		`$index`:                    {root: rootIndex},
		`$prev.a`:                   {root: rootPrev, segments: []Segment{name("a")}},
		`$result`:                   {root: RootResult},
		`$state.a`:                  {root: RootState, segments: []Segment{name("a")}},
		`$secret.a`:                 {root: rootSecret, segments: []Segment{name("a")}},
		`$0.Digital Camera`:         {segments: []Segment{name("Digital Camera")}},
		`$0.MA(5)[1]`:               {segments: []Segment{name("MA(5)"), at(1)}},
		`$0.a-b.c_d.e:f.g/h.@i.-`:   {segments: []Segment{name("a-b"), name("c_d"), name("e:f"), name("g/h"), name("@i"), name("-")}},
		`$0.naïve clé.日本`:           {segments: []Segment{name("naïve clé"), name("日本")}},
		`$2.variants.115.item_id`:   {step: 2, segments: []Segment{name("variants"), name("115"), name("item_id")}},
		`$0.items.0.id`:             {segments: []Segment{name("items"), name("0"), name("id")}},
		`$0["a.b"]['x|y'][""]`:      {segments: []Segment{quoted("a.b"), quoted("x|y"), quoted("")}},
		`$0["\u00e9\n\"\\"]`:        {segments: []Segment{quoted("é\n\"\\")}},
		`$0['it\'s "so"']["it\'s"]`: {segments: []Segment{quoted(`it's "so"`), quoted("it's")}},
		"$0[\"a\nb\"]":              {segments: []Segment{quoted("a\nb")}},
		`$0[0][-1]`:                 {segments: []Segment{at(0), at(-1)}},
		`$0.[0].["a"]`:              {segments: []Segment{at(0), quoted("a")}},
		`$0[*].a[**]`:               {segments: []Segment{{Kind: Each}, name("a"), {Kind: Flat}}},
		`$0?.a?.b?[0]?.[1]?[*]`: {segments: []Segment{optional(name("a")), optional(name("b")), optional(at(0)),
			optional(at(1)), {Kind: Each, Optional: true}}},
		`$0.limit ?? 10`:                         {segments: []Segment{name("limit")}, fallback: "10"},
		`$0.limit??10`:                           {segments: []Segment{name("limit")}, fallback: "10"},
		`$0.a b ?? "x ?? y"`:                     {segments: []Segment{name("a b")}, fallback: `"x ?? y"`},
		"$0 \t??\n { \"a\" : [ 1.10 , null ] } ": {fallback: `{"a":[1.10,null]}`},
		`$0.a?.b ?? null`:                        {segments: []Segment{name("a"), optional(name("b"))}, fallback: "null"},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
		if again, err := Parse(got.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: the canonical spelling %s parses as %+v, %v; want %+v", text, got, again, err, want)
		}
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"$0" + strings.Repeat(".a", maxSegments):                   true,
		"$0" + strings.Repeat(".a", maxSegments+1):                 false,
		"$0." + strings.Repeat("a", maxReferenceBytes-3):           true,
		"$0." + strings.Repeat("a", maxReferenceBytes):             false,
		"$0 ?? " + strings.Repeat("[", 1<<20):                      false,
		"$0 ?? \"" + strings.Repeat("a", maxReferenceBytes) + "\"": false,
		"$0" + strings.Repeat("[", 1<<20):                          false,
		"$" + strings.Repeat("9", 1<<20):                           false,
	} {
		_, err := Parse(text)
		if (err == nil) != ok {
			t.Errorf("%.20s… of %d bytes: %v, want success %v", text, len(text), err, ok)
		}
		if err != nil {
			if e := wantCode(t, err, fault.BadReference); len(e.Source) > 2*excerptSide+8 || len(e.Message) > 400 {
				t.Errorf("%.20s…: source of %d bytes, message of %d; want at most %d and 400", text, len(e.Source), len(e.Message), 2*excerptSide+8)
			}
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	text := "first\n" + strings.Repeat("é", 200) + "x" + strings.Repeat("é", 200) + "\nlast"
	e := atOffset(&fault.Error{}, text, strings.IndexByte(text, 'x'))
	if e.Source[e.Offset] != 'x' || len(e.Source) > 2*excerptSide+2 || strings.ToValidUTF8(e.Source, "") != e.Source {
		t.Errorf("the excerpt is %q with the caret at %d; want at most %d bytes of UTF-8 and the caret at the x", e.Source, e.Offset, 2*excerptSide+2)
	}
	if e := atOffset(&fault.Error{}, "one\ntwo", 4); e.Source != "two" || e.Offset != 0 {
		t.Errorf("the excerpt is %q with the caret at %d; want two and 0", e.Source, e.Offset)
	}
}
