package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0B": 0, "12B": 12, "1KB": 1000, "1KiB": 1024, "64MiB": 64 << 20, "2 GB": 2e9,
		"1GiB": 1 << 30, "8589934591GiB": 8589934591 << 30} {
		if got, ok := parseSize(text); got != want || !ok {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "5", "-1B", "1.5MB", "1mb", "1TB", "1 MB ", "9223372036854775808B", "8589934592GiB", "B"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q is accepted as %d, want refused", text, got)
		}
	}
}

func TestConfigJSON(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"1.10": "1.10", "-0": "-0", "12345678901234567890123456789": "12345678901234567890123456789", "1e400": "1e400", "1E5": "1E5",
		"0.1e+5": "0.1e+5",
		`"1.10"`: `"1.10"`, "'1'": `"1"`, "2024-01-01": `"2024-01-01"`, "2024-01-01T00:00:00Z": `"2024-01-01T00:00:00Z"`,
		"12:30:45": `"12:30:45"`, "1.2.3": `"1.2.3"`,
		"yes": `"yes"`, "true": "true", "null": "null", "~": "null", "[]": "[]", "{}": "{}", "[1, [2, {a: 3}]]": "[1,[2,{\"a\":3}]]",
		"{b: 1, a: 2, '1': 3, 2: 4}": `{"b":1,"a":2,"1":3,"2":4}`,
		`"é <b>\n\u0000"`:            `"é \u003cb\u003e\n\u0000"`, "\n      a: |\n        x\n        y\n": `{"a":"x\ny\n"}`,
		"\n      - &x {k: 1}\n      - *x\n": `[{"k":1},{"k":1}]`, "\n      a:\n": `{"a":null}`,
	} {
		c, faults := decodeConfig("onecall.yaml", "http:\n  endpoints:\n   e:\n    url: x\n    body: "+written+"\n")
		if len(faults) > 0 {
			t.Errorf("%s: got faults %v, want none", written, faults)
			continue
		}
		if got := string(c.HTTP.Endpoints[0].Config.Body); got != want {
			t.Errorf("%s is %s, want %s", written, got, want)
		}
	}
	for _, written := range []string{"0x1F", "0o17", "1_000", "007", "+5", ".5", "1.", ".inf", ".nan", "0b11", "089", "!!str 5",
		"{<<: {a: 1}}", "{a: [1, &x [*x]]}", "*none"} {
		c, faults := decodeConfig("onecall.yaml", "http: {endpoints: {e: {url: x, body: "+written+"}}}")
		if len(faults) != 1 || faults[0].Line != 1 || !strings.HasPrefix(faults[0].At, "/http/endpoints/e/body") {
			t.Errorf("%s: got faults %v, want one at the body in line 1", written, faults)
		} else if got := string(c.HTTP.Endpoints[0].Config.Body); got != "null" {
			t.Errorf("%s is %s, want null", written, got)
		}
	}
	c, faults := decodeConfig("onecall.json",
		`{"http": {"endpoints": {"e": {"url": "x", "body": {"b": 18446744073709551616, "a": 1.50, "c": "x\u00e9\/\ud83d\ude00", "b2": 1E5}}}}}`)
	if len(faults) > 0 || string(c.HTTP.Endpoints[0].Config.Body) != `{"b":18446744073709551616,"a":1.50,"c":"xé/😀","b2":1E5}` {
		t.Errorf("body from JSON: got %s, %v, want the numbers and the order of the JSON", c.HTTP.Endpoints[0].Config.Body, faults)
	}
}

// TestRepeatedAliases: a small text whose aliases multiply is refused before it fills the memory.
func TestRepeatedAliases(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("http:\n  endpoints:\n    e:\n      url: x\n      body:\n      - &a [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range 12 {
		last, next := string(rune('a'+i)), string(rune('b'+i))
		b.WriteString("      - &" + next + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n")
	}
	_, faults := decodeConfig("onecall.yaml", b.String())
	if len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
		t.Errorf("aliases of aliases: faults %v, want one limit_exceeded", faults)
	}
	text := "mcpServers:\n  a: {command: x, args: &l [" + strings.Repeat("x,", 5000) + "x]}\n"
	for i := range 100 {
		text += "  s" + strings.Repeat("x", i+1) + ": {command: x, args: *l}\n"
	}
	if _, faults := decodeConfig("onecall.yaml", text); len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
		t.Errorf("a repeated long list: %d faults, want one limit_exceeded", len(faults))
	}
}

// TestUnusualTexts checks texts that a transcript cannot hold.
func TestUnusualTexts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"nothing":           {"", ""},
		"a comment":         {"# nothing\n", ""},
		"an empty object":   {"{}", ""},
		"one document":      {"---\n", ""},
		"a byte order mark": {"\ufefflimits:\n  maxSteps: 7\n", ""},
		"deep":              {strings.Repeat("[", 100000), "0:0 bad_json"},
		"deep lists":        {strings.Repeat("- ", 100000), "0:0 bad_json"},
		"not UTF-8":         {"lite: \xff", "0:0 bad_json"},
	} {
		c, faults := decodeConfig("onecall.yaml", test.text)
		got := ""
		for _, f := range faults {
			got += fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Code)
		}
		if got != test.want || strings.Contains(test.text, "7") && *c.Limits.MaxSteps != 7 {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
