package steps

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps/schema"
)

// TestLabelsAreWrittenAsTheyAreRead: what ParseGives and ParseTakes read is written the same again, in one spelling.
func TestLabelsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`["a","b"]`:                         `["a","b"]`,
		`{"$result":["a"]}`:                 `["a"]`,
		`{"$result.m[*].body":["a","b-c"]}`: `{"$result.m[*].body":["a","b-c"]}`,
		`{"$result[*][\"a b\"].c":["a"]}`:   `{"$result[*][\"a b\"].c":["a"]}`,
		`{"$result.a":["x"],"$result":["y"],"$result[\"a\"]":["z"]}`: `{"$result.a":["x","z"],"$result":["y"]}`,
		`[]`: ``,
	} {
		list, faults := ParseGives([]byte(text))
		if got := string(GivesJSON(list)); len(faults) > 0 || list == nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, faults, want)
		}
	}
	for text, want := range map[string]string{
		`{"to":"recipient","*":"content"}`:           `{"to":"recipient","*":"content"}`,
		`{"cc[*].address":"r","a.b":"r","a[*]":"s"}`: `{"cc[*].address":"r","a.b":"r","a[*]":"s"}`,
		`{}`: ``,
	} {
		list, faults := ParseTakes([]byte(text))
		if got := string(TakesJSON(list)); len(faults) > 0 || list == nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, faults, want)
		}
	}
}

// TestFaultsOfLabels: what is no label, role or path is named with its place.
func TestFaultsOfLabels(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`:                    `: must be a list of labels`,
		`{"$result.a":"x"}`:      `/$result.a: must be a list of labels`,
		`["a",7]`:                `/1: "7" is no label`,
		`["a b"]`:                `/0: "a b" is no label`,
		`[""]`:                   `/0: "" is no label`,
		`{"result.a":["x"]}`:     `/result.a: "result.a" is no path of a result`,
		`{"$result..a":["x"]}`:   `/$result..a: "$result..a" is no path`,
		`{"$result[0].a":["x"]}`: `/$result[0].a: "$result[0].a" is no path`,
		`{"$result[\"a":["x"]}`:  `is no path`,
		`{"$result.a]":["x"]}`:   `is no path`,
		`{"$resulta":["x"]}`:     `is no path`,
	} {
		_, faults := ParseGives([]byte(text))
		if len(faults) != 1 || !strings.Contains(faults[0].At+": "+faults[0].Message, want) {
			t.Errorf("gives %s: %v, want one with %q", text, faults, want)
		}
	}
	for text, want := range map[string]string{
		`["to"]`:           `: must be an object of roles`,
		`{"to":["r"]}`:     `/to: "[\"r\"]" is no role`,
		`{"to":"write"}`:   `/to: write is no role of an argument`,
		`{"to":"destroy"}`: `/to: destroy is no role of an argument`,
		`{"":"r"}`:         `is no path of an argument`,
		`{"[*].a":"r"}`:    `is no path of an argument`,
		`{"$args.a":"r"}`:  `is no path of an argument`,
	} {
		_, faults := ParseTakes([]byte(text))
		if len(faults) != 1 || !strings.Contains(faults[0].At+": "+faults[0].Message, want) {
			t.Errorf("takes %s: %v, want one with %q", text, faults, want)
		}
	}
}

func FuzzGives(f *testing.F) {
	f.Add(`{"$result.a[*][\"b c\"]":["x"]}`)
	f.Add(`{"a.b[*]":"role"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if list, faults := ParseGives([]byte(text)); len(faults) == 0 {
			written := GivesJSON(list)
			again, faults := ParseGives(written)
			if written != nil && (len(faults) > 0 || string(GivesJSON(again)) != string(written)) {
				t.Fatalf("%q: %s is read as %s: %v", text, written, GivesJSON(again), faults)
			}
		}
		if list, faults := ParseTakes([]byte(text)); len(faults) == 0 {
			written := TakesJSON(list)
			again, faults := ParseTakes(written)
			if written != nil && (len(faults) > 0 || string(TakesJSON(again)) != string(written)) {
				t.Fatalf("%q: %s is read as %s: %v", text, written, TakesJSON(again), faults)
			}
		}
	})
}

// TestLabelSettings: the most exact setting replaces labels as a whole, also by none; what a possible path matches adds labels and takes none
// away; a preset fills what nothing else sets.
func TestLabelSettings(t *testing.T) {
	t.Parallel()
	labels := func(names ...string) []Given {
		list := []Given{}
		for _, name := range names {
			list = append(list, Given{Label: name})
		}
		return list
	}
	s := mustSettings(t,
		Setting{Pattern: "m.get_mail", Gives: labels("preset"), Takes: []Taken{{Role: "p"}}, Preset: true},
		Setting{Pattern: "m.*", Gives: labels("all")},
		Setting{Pattern: "m.get_own", Gives: labels()},
		Setting{Pattern: "p.thing.list", Gives: labels("possible")},
		Setting{Pattern: "q.thing.list", Gives: labels()}, Setting{Pattern: "q.*", Gives: labels("kept")},
	)
	for _, test := range []struct{ name, possible, want string }{
		{"m.get_mail", "", "all"}, {"m.get_own", "", ""}, {"p.list_thing", "p.thing.list", "possible"}, {"q.list_thing", "q.thing.list", "kept"},
		{"o.x", "", ""},
	} {
		spec := Spec{Name: test.name}
		if test.possible != "" {
			spec.PossiblePaths = []string{test.possible}
		}
		fn, _ := s.Apply(Function{Spec: spec})
		var got []string
		for _, given := range fn.Gives {
			got = append(got, given.Label)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s gives %q, want %q", test.name, got, test.want)
		}
		if wantsRole := test.name == "m.get_mail"; (len(fn.Takes) > 0) != wantsRole {
			t.Errorf("%s takes %v", test.name, fn.Takes)
		}
	}
	if got := FlowPath([]schema.Element{{Key: "a"}, {Each: true}, {Key: "b c"}}); got != `.a[*]["b c"]` {
		t.Errorf("FlowPath: %s", got)
	}
}
