package format

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

const people = `[{"id":1,"name":"Ada","tags":["a","b"],"rate":1.10},{"id":12345678901234567890,"name":"Bob, \"B\"","tags":{"x":1},"rate":null}]`

// TestWrite: what formats make of values, and why they do not hold others.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, value, text, why string }{
		{Table, people, "id,name,tags,rate\n[1,\"Ada\",[\"a\",\"b\"],1.10]\n[12345678901234567890,\"Bob, \\\"B\\\"\",{\"x\":1},null]", ""},
		{CSV, people, "id,name,tags,rate\n1,Ada,\"[\"\"a\"\",\"\"b\"\"]\",1.10\n12345678901234567890,\"Bob, \"\"B\"\"\",\"{\"\"x\"\":1}\",", ""},
		{CSV, `[{"a":"x\ny"},{"a":null},{"a":true}]`, "a\n\"x\ny\"\n\"\"\ntrue", ""},
		{CSV, `[{"a,\"b\"":1}]`, "\"a,\"\"b\"\"\"\n1", ""},
		{Markdown, people, "| id | name | tags | rate |\n| --- | --- | --- | --- |\n| 1 | Ada | [\"a\",\"b\"] | 1.10 |\n" +
			"| 12345678901234567890 | Bob, \"B\" | {\"x\":1} |  |", ""},
		{Markdown, `[{"a|b":"x|y\r\nz"}]`, "| a\\|b |\n| --- |\n| x\\|y<br>z |", ""},
		{Lines, `["a, \"b\"","",1.10,true,null,"é\u00e9"]`, "a, \"b\"\n\n1.10\ntrue\nnull\néé", ""},
		{Lines, `[]`, "", ""},
		{Lines, `[1,"a\nb"]`, "", "holds texts without line breaks, and element 1 has one"},
		{Lines, `["a\rb"]`, "", "holds texts without line breaks, and element 0 has one"},
		{Lines, `[1,{}]`, "", "holds no lists or objects, and element 1 is one"},
		{Lines, `"a\tb \"c\"\r\n\n\u00e9"`, "a\tb \"c\"\r\n\né", ""},
		{Lines, `""`, "", ""},
		{Lines, `{"a":1}`, "", "holds a text, or a list of texts, numbers, booleans and nulls, and this is neither"},
		{Lines, `1`, "", "holds a text, or a list of texts, numbers, booleans and nulls, and this is neither"},
		{Table, `{"items":[{"a":1}]}`, "", "holds a list of objects, and this is none"},
		{Table, `[]`, "", "takes its columns from the first object, and there is none"},
		{Table, `[{}]`, "", "has a column for each name, and the objects have none"},
		{Table, `[{"a":1},2]`, "", "holds objects, and element 1 is none"},
		{Table, `[{"a":1},{"b":1}]`, "", "holds objects with the same names in the same order, and element 1 differs from element 0"},
		{Table, `[{"a":1,"b":2},{"b":1,"a":2}]`, "", "holds objects with the same names in the same order, and element 1 differs from element 0"},
		{Table, `[{"a":1,"b":2},{"a":1}]`, "", "holds objects with the same names in the same order, and element 1 differs from element 0"},
		{Table, `[{"a":1},{"a":1,"b":2}]`, "", "holds objects with the same names in the same order, and element 1 differs from element 0"},
		{CSV, `[{"a":1,"a":2}]`, "", `has a column for each name, and the objects have "a" twice`},
		{Table, `[{"a,b":1}]`, "", `holds names without a comma and without escapes, and "a,b" is another`},
		{Table, `[{"a\"":1}]`, "", `holds names without a comma and without escapes, and "a\"" is another`},
		{Table, `[{"":1}]`, "", "holds objects whose names are not blank"},
	} {
		text, why := Write(c.format, []byte(c.value), 0)
		if string(text) != c.text || why != c.why || (text == nil) != (c.why != "") {
			t.Errorf("%s of %s is %q, %q\nwant %q, %q", c.format, c.value, text, why, c.text, c.why)
		}
	}
}

// TestLosslessIsUnlikeJSON: Lossless does not return texts that could be read as something else.
func TestLosslessIsUnlikeJSON(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`["a","b"]`: Lines, `["a\u00e9","b"]`: Lines, `[{"a":1}]`: Table,
		`["5"]`: JSON, `["{\"a\":1}"]`: JSON, `["[","1","]"]`: JSON, `["a","[1]"]`: JSON, `["a",""]`: JSON, `[""]`: JSON, `["a",1]`: JSON, `["a\nb"]`: JSON,
		`["\ud800"]`: JSON, `["�"]`: JSON, `[]`: JSON, `[1,2]`: JSON, `{"a":1}`: JSON, `"a"`: JSON, `null`: JSON, `[{" ":1}]`: JSON, `[[1]]`: JSON,
	} {
		if format, text := Lossless([]byte(value), 0); format != want || (text == nil) != (want == JSON) {
			t.Errorf("%s becomes %s, %q, want %s", value, format, text, want)
		}
	}
}

// TestWriteEndsEarly: a text that is too long ends soon after the limit.
func TestWriteEndsEarly(t *testing.T) {
	t.Parallel()
	objects := []byte(`[` + strings.TrimSuffix(strings.Repeat(`{"name":"0123456789"},`, 1000), ",") + `]`)
	texts := []byte(`[` + strings.TrimSuffix(strings.Repeat(`"0123456789",`, 1000), ",") + `]`)
	for _, format := range []string{Table, CSV, Lines, Markdown} {
		value := objects
		if format == Lines {
			value = texts
		}
		for _, limit := range []int{1, 100, 2000} {
			if text, _ := Write(format, value, limit); len(text) <= limit || format != CSV && len(text) > limit+60 || len(text) > limit+4200 {
				t.Errorf("%s with a limit of %d has %d bytes", format, limit, len(text))
			}
		}
	}
}

// readBack returns the value that a reader sees in a text that Lossless has returned, or in JSON. It knows nothing but the text.
func readBack(text []byte) []byte {
	if gjson.ValidBytes(text) {
		return text
	}
	list := bytes.Split(text, []byte{'\n'})
	value := []byte{'['}
	if len(list) < 2 || list[1][0] != '[' {
		for i, line := range list {
			if i > 0 {
				value = append(value, ',')
			}
			value = rawjson.AppendQuote(value, line)
		}
		return append(value, ']')
	}
	names := strings.Split(string(list[0]), ",")
	for i, line := range list[1:] {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, '{')
		column := 0
		for start, end := range rawjson.Elements(line) {
			if column > 0 {
				value = append(value, ',')
			}
			value = append(append(append(value, '"'), names[column]...), '"', ':')
			value = append(value, line[start:end]...)
			column++
		}
		value = append(value, '}')
	}
	return append(value, ']')
}

// checkFormats writes a value, compact JSON, in all formats and reads it back.
func checkFormats(t interface{ Fatalf(string, ...any) }, value []byte) {
	format, text := Lossless(value, 0)
	if text != nil {
		got, want := readBack(text), value
		if format == Lines { // escapes are not told
			want = nil
			for start, end := range rawjson.Elements(value) {
				want = append(rawjson.AppendQuote(want, rawjson.Unquote(string(value[start:end]))), ',')
			}
			want = append(append([]byte{'['}, bytes.TrimSuffix(want, []byte{','})...), ']')
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%s\nbecomes %q, which reads\n%s", want, text, got)
		}
	}
	for _, format := range []string{Table, CSV, Lines, Markdown} {
		text, why := Write(format, value, 0)
		if (text == nil) != (why != "") {
			t.Fatalf("%s of %s is %q, %q", format, value, text, why)
		}
		if text == nil {
			continue
		}
		elements := len(gjson.ParseBytes(value).Array())
		switch lines := bytes.Count(text, []byte{'\n'}) + 1; {
		case format == CSV:
			checkCSV(t, value, text)
		case format == Lines && value[0] == '"':
			if string(text) != rawjson.Unquote(string(value)) {
				t.Fatalf("%s becomes %q", value, text)
			}
		case format == Lines && elements == 0:
		case format == Lines && lines != elements, format == Table && lines != elements+1, format == Markdown && lines != elements+2:
			t.Fatalf("%s of %s has %d lines: %s", format, value, lines, text)
		}
	}
}

// checkCSV reads a text with encoding/csv, which turns "\r\n" within a field into "\n".
func checkCSV(t interface{ Fatalf(string, ...any) }, value, text []byte) {
	var want [][]string
	for start, end := range rawjson.Elements(value) {
		var names, record []string
		for name, member := range rawjson.Members(value[start:end]) {
			names, record = append(names, rawjson.Unquote(string(name))), append(record, strings.ReplaceAll(plain(member), "\r\n", "\n"))
		}
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], "\r\n", "\n")
		}
		if want == nil {
			want = append(want, names)
		}
		want = append(want, record)
	}
	got, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("%s as CSV reads %q, %v, want %q", value, got, err, want)
	}
}

// drawRaw draws compact JSON whose spelling encoding/json would not keep.
func drawRaw(depth int) *rapid.Generator[string] {
	texts := rapid.Map(rapid.OneOf(rapid.StringN(0, 8, -1),
		rapid.SampledFrom([]string{"a", "b", "id", "a,b", "[1]", "a\nb", "", " ", "|", "\u2028"})),
		func(s string) string { return string(rawjson.AppendQuote(nil, s)) })
	scalars := rapid.OneOf(texts, rapid.SampledFrom([]string{"1.10", "1e400", "12345678901234567890", "-0", "true", "false", "null", `"\u00e9"`,
		`"\ud800"`, `"\/"`, `""`}))
	if depth == 0 {
		return scalars
	}
	deeper := drawRaw(depth - 1)
	return rapid.OneOf(scalars,
		rapid.Map(rapid.SliceOfN(texts, 0, 4), func(list []string) string { return "[" + strings.Join(list, ",") + "]" }),
		rapid.Map(rapid.SliceOfN(deeper, 0, 4), func(list []string) string { return "[" + strings.Join(list, ",") + "]" }),
		rapid.Custom(func(t *rapid.T) string {
			names := rapid.SliceOfNDistinct(texts, 0, 4, rapid.ID[string]).Draw(t, "names")
			rows := make([]string, rapid.IntRange(0, 4).Draw(t, "rows"))
			for i := range rows {
				row := make([]string, len(names))
				for j, name := range names {
					row[j] = name + ":" + deeper.Draw(t, "value")
				}
				rows[i] = "{" + strings.Join(row, ",") + "}"
			}
			return "[" + strings.Join(rows, ",") + "]"
		}))
}

// TestRoundTrip: a reader gets the value back from every text that loses nothing, whatever is in it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkFormats(t, []byte(drawRaw(3).Draw(t, "value"))) })
}

func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{people, `["a","b"]`, `[{"a":1},{"a":[{"b":"\n"}]}]`, `[{"":1}]`, `["\ud800","[1]"]`, `[{"a":"|\r\n"}]`, `[[],{}]`, `0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil && json.Valid(text) && bytes.Equal(bytes.ToValidUTF8(text, nil), text) {
			checkFormats(t, compact.Bytes())
		}
	})
}
