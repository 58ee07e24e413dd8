package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestEdit removes an entry from a text and inserts onecall's. Everything else stays, byte for byte.
func TestEdit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ path, before, after string }{
		"json empty file": {"x.json", "", "{\n  \"s\": {\n    \"onecall\": {\n      \"cmd\": \"x\"\n    }\n  }\n}\n"},
		"json no servers": {"x.json", "{\n\t\"a\": 1 // one\n}\n",
			"{\n\t\"a\": 1, // one\n\t\"s\": {\n\t\t\"onecall\": {\n\t\t\t\"cmd\": \"x\"\n\t\t}\n\t}\n}\n"},
		"json one line": {"x.json", `{"s":{"gone":{"a":1},"stays":{}},"z":1.10}`, `{"s":{"stays":{},"onecall":{"cmd":"x"}},"z":1.10}`},
		"json last": {"x.json", "{\"s\": {\n  \"a\": 1, // a\n  // about gone\n  \"gone\": 2 // gone\n}}",
			"{\"s\": {\n  \"a\": 1, // a // gone\n    \"onecall\": {\n      \"cmd\": \"x\"\n    }\n  }}"},
		"json commas": {"x.json", "{\n  \"s\": {\n    \"gone\": 1,\n    \"b\": 2,\n  },\n}",
			"{\n  \"s\": {\n    \"b\": 2,\n    \"onecall\": {\n      \"cmd\": \"x\"\n    },\n  },\n}"},
		"json windows": {"x.json", "\ufeff{\r\n  \"s\": {\r\n    \"gone\": 1\r\n  }\r\n}\r\n",
			"\ufeff{\r\n  \"s\": {\r\n    \"onecall\": {\r\n      \"cmd\": \"x\"\r\n    }\r\n  }\r\n}\r\n"},
		"toml empty": {"x.toml", "", "[s.onecall]\ncmd = \"x\"\n"},
		"toml tables": {"x.toml",
			"a = 1\n\n# about gone\n[s.gone]\nb = \"\"\"\n[s.other]\n\"\"\" # b\n\n[s.gone.env]\nK = \"v\"\n\n# about z\n[z] # " +
				"z\n[s.\"gone\".more]\nx=1",
			"a = 1\n\n# about z\n[z] # z\n\n[s.onecall]\ncmd = \"x\"\n"},
		"toml header":   {"x.toml", "[s]\n[s.gone]\na=1\r\n[s.b]\n", "[s]\n[s.b]\n\n[s.onecall]\ncmd = \"x\"\n"},
		"yaml empty":    {"x.yaml", "", "s:\n  onecall:\n    cmd: x\n"},
		"yaml no value": {"x.yaml", "a: 1\ns: # mine\nb: 2", "a: 1\ns: # mine\n  onecall:\n    cmd: x\nb: 2\n"},
		"yaml braces":   {"x.yaml", "s: {} # mine\nb: 2\n", "s: # mine\n  onecall:\n    cmd: x\nb: 2\n"},
		"yaml entries": {"x.yaml",
			"# top\ns:\n    # about gone\n    gone:\n      a: |\n        x: y\n\n        # text\n      b: [1]\n    # about stays\n    " +
				"stays: {a: 1}\n\n# end\nz: 1\n", "# top\ns:\n    # about stays\n    stays: {a: 1}\n    onecall:\n      cmd: x\n\n# end\nz: 1\n"},
		"yaml only":             {"x.yaml", "s:\n  gone: 1\nz: 1\n", "s:\n  onecall:\n    cmd: x\nz: 1\n"},
		"yaml carriage returns": {"x.yaml", "s:\r\n  gone:\r\n    a: 1\r\nz: 1\r\n", "s:\r\n  onecall:\r\n    cmd: x\r\nz: 1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDocument(formatOf(test.path), []string{"s"}, []byte(test.before))
			if strings.Contains(test.before, "gone") {
				if _, err := d.remove("gone"); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.insert(d.render("onecall", []field{value("cmd", "x")})); err != nil {
				t.Fatal(err)
			}
			if got := string(d.bytes()); got != test.after {
				t.Errorf("inserting into %q:\ngot  %q\nwant %q", test.before, got, test.after)
			}
		})
	}
}

// TestEditRefuses: a layout in which one entry cannot be changed alone is left as it is.
func TestEditRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, text, want string }{
		{"x.json", `{"s": {"gone": 1}`, "not JSON"}, {"x.json", `[1]`, "not an object"}, {"x.json", `{"s": [1]}`, "s is not an object"},
		{"x.json", "{\"s\": {\"gone\": \"\xff\"}}", "not UTF-8"},
		{"x.toml", "[s\n", "not TOML"}, {"x.toml", "[s]\ngone = {a = 1}\n", "[s.NAME]"}, {"x.toml", "s.gone.a = 1\n", "[s.NAME]"},
		{"x.toml", "s = {gone = {a = 1}}\n", "[s.NAME]"},
		{"x.yaml", "s: [\n", "not YAML"}, {"x.yaml", "s: {gone: {a: 1}}\n", "line 1: write the entries of s"},
		{"x.yaml", "s:\n  gone: &a {x: 1}\nz: *a\n", "line 3 has an alias"},
		{"x.yaml", "s:\n  gone: 1\n---\nb: 1\n", "documents"}, {"x.yaml", "s:\r\r  gone: 1\n", "cannot be changed alone"},
		{"x.yaml", "a: &a [1]\nb: &b [*a, *a]\ns: {gone: *b}\n", "has an alias"}, {"x.yaml", "s: " + strings.Repeat("[", 200_000), "too deep"},
		{"x.yaml", "s: |\n" + strings.Repeat("  text\n", 200_000), "more than 1048576 bytes"},
		{"x.toml", "s = " + strings.Repeat("[", 200_000), "too deep"},
		{"x.json", strings.Repeat("[", 200_000), "not JSON"},
	} {
		d := openDocument(formatOf(test.path), []string{"s"}, []byte(test.text))
		if _, err := d.remove("gone"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("removing from %q: %v, want %q", test.text, err, test.want)
		}
		if string(d.bytes()) != test.text {
			t.Errorf("a refused edit changed %q to %q", test.text, d.bytes())
		}
	}
}

// FuzzEdit removes all entries from a text, inserts onecall, removes it and inserts the entries again: the data is as before, comments
// included.
func FuzzEdit(f *testing.F) {
	for i, text := range []string{
		"{\"s\": {\"a\": {\"x\": 1}, /* c */ \"b\": {}, // d\n}, \"z\": [1.10]}", "{}", "// a\n{\"s\":{}}\n",
		"# a\n[s.a]\nx = 1 # c\n\n# b\n[s.b]\n[s.a.env]\ny=2\n[z]\n", "s = {}\n", "[[s.a]]\nx=1\n",
		"# a\ns:\n  # c\n  a: {x: 1} # d\n\n  b:\n  - 1\nz: |\n  text\n", "s:\n", "s: {}\n---\n", "- s\n",
	} {
		f.Add(text, byte(min(i/3, 2)))
	}
	f.Fuzz(func(t *testing.T, text string, kind byte) {
		path := "x" + []string{".json", ".toml", ".yaml"}[kind%3]
		d := openDocument(formatOf(path), []string{"s"}, []byte(text))
		object, err := d.format.json([]byte(d.text))
		if err != nil {
			return
		}
		var all []entry
		for name := range ordered(gjson.GetBytes(object, "s")) {
			if one, err := d.remove(name); err == nil {
				all = append(all, one)
			}
		}
		if d.insert(d.render("onecall", []field{value("cmd", "x")})) == nil {
			if got, _ := d.format.json([]byte(d.text)); gjson.GetBytes(got, "s.onecall.cmd").String() != "x" {
				t.Errorf("inserting into %q gives %q, which lacks the new entry", text, d.text)
			}
			if _, err := d.remove("onecall"); err != nil {
				return // refused
			}
		}
		for _, one := range all {
			if err := d.insert(one); err != nil {
				return // refused: the document is unchanged, and the entry is still held
			}
		}
		got, err := d.format.json([]byte(d.text))
		if err != nil {
			t.Fatalf("editing %q gives %q, which does not parse: %v", text, d.text, err)
		}
		for name, member := range ordered(gjson.GetBytes(object, "s")) {
			if restored := lastMember(gjson.GetBytes(got, "s"), name); restored.Raw == "" || !sameJSON(restored.Raw, member.Raw) {
				t.Errorf("entry %s of %q is missing or changed in %q", name, text, d.text)
			}
		}
	})
}

func lastMember(object gjson.Result, name string) (value gjson.Result) {
	for key, member := range ordered(object) {
		if key == name {
			value = member
		}
	}
	return value
}

func sameJSON(a, b string) bool {
	return fmt.Sprint(gjson.Parse(a).Value()) == fmt.Sprint(gjson.Parse(b).Value())
}
