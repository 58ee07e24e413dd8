package lock_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/steps"
)

func neverCalled(context.Context, []byte) ([]byte, error) {
	return nil, fault.New(fault.Internal, "nothing is called here")
}

func example() *lock.File {
	l := &lock.File{All: true}
	l.Set(lock.Of(&steps.Spec{Name: "srv.write", Description: "Writes <a> & \"b\"\u2028.",
		Input: []byte(`{"type":"object","properties":{"<b>":{"maximum":1.50},"a":{}}}`)}))
	l.Set(lock.Of(&steps.Spec{Name: "fs.read", Effect: steps.Read, Output: []byte(`true`)}))
	l.Set(lock.Of(&steps.Spec{Name: "srv.write", Effect: steps.Destroy, Input: []byte(`{"properties":{"<b>":{"maximum":1.50},"a":{}}}`)}))
	return l
}

func TestText(t *testing.T) {
	t.Parallel()
	l := example()
	text := l.Text()
	want := `{
  "version": 1,
  "all": true,
  "functions": {
    "fs.read": {
      "digest": "` + l.Find("fs.read").Digest + `",
      "effect": "read",
      "output": true
    },
    "srv.write": {
      "digest": "` + l.Find("srv.write").Digest + `",
      "effect": "destroy",
      "input": {
        "properties": {
          "<b>": {
            "maximum": 1.50
          },
          "a": {}
        }
      }
    }
  }
}
`
	if string(text) != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	again, f := lock.Parse("onecall.lock", text)
	if f != nil {
		t.Fatal(f)
	}
	if !bytes.Equal(again.Text(), text) || !again.All {
		t.Errorf("read and written again: %s", again.Text())
	}
	again.Remove("fs.read")
	if again.Find("fs.read") != nil || again.Find("srv.write") == nil {
		t.Error("removed the wrong function")
	}
	empty, f := lock.Parse("onecall.lock", (&lock.File{}).Text())
	if f != nil || empty.All || len(empty.Functions) != 0 {
		t.Errorf("an empty lock: %v, %v", empty, f)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := string(example().Text())
	for name, test := range map[string]struct {
		text, want string
		line       int
	}{
		"no JSON": {"<<<<<<< HEAD\n" + good, "cannot be read", 1},
		"a conflict": {strings.Replace(good, `      "effect": "read"`, "<<<<<<< HEAD\n      \"effect\": \"read\"", 1),
			"cannot be read", 7},
		"cut off":    {good[:len(good)/2], "cannot be read", 11},
		"empty":      {"", "cannot be read", 1},
		"a list":     {"[]", "it has no version", 0},
		"no version": {`{"functions":{}}`, "it has no version", 0},
		"newer": {strings.Replace(good, `"version": 1`, `"version": 2, "more": []`, 1),
			"has version 2, which a newer onecall has written", 0},
		"another member": {strings.Replace(good, `"all": true`, `"al": true`, 1), "cannot be read", 3},
		"another effect": {strings.Replace(good, `"destroy"`, `"read"`, 1),
			`what onecall.lock says of "srv.write" was changed by hand`, 10},
		"no effect":         {strings.Replace(good, `"destroy"`, `"none"`, 1), `of "srv.write" was changed by hand`, 10},
		"another name":      {strings.Replace(good, `"fs.read"`, `"fs.find"`, 1), `of "fs.find" was changed by hand`, 5},
		"another bound":     {strings.Replace(good, `1.50`, `15`, 1), `of "srv.write" was changed by hand`, 10},
		"more of a schema":  {strings.Replace(good, `"a": {}`, `"a": {}, "b": {}`, 1), `of "srv.write" was changed by hand`, 10},
		"another output":    {strings.Replace(good, `"output": true`, `"output": false`, 1), `of "fs.read" was changed by hand`, 5},
		"a text as version": {strings.Replace(good, `"version": 1`, `"version": "1"`, 1), "it has no version", 0},
		"a function twice": {strings.Replace(good, "\n    \"fs.read\"", "\n    "+good[strings.Index(good, `"fs.read"`):strings.Index(good, `"srv.write"`)]+
			"\"fs.read\"", 1), `names "fs.read" twice`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, f := lock.Parse("onecall.lock", []byte(test.text))
			if f == nil || f.Code != fault.BadRequest || !strings.Contains(f.Message, test.want) || !strings.Contains(f.Message, "onecall") {
				t.Fatalf("got %v, want bad_request: …%s…", f, test.want)
			}
			if f.Line != test.line {
				t.Errorf("line %d, want %d: %v", f.Line, test.line, f)
			}
		})
	}
}

// FuzzParse accepts any text: a fault is coded, and what is read is written again as it was.
func FuzzParse(f *testing.F) {
	f.Add(example().Text())
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"functions":{"a":{"digest":"sha256:0","effect":"read","input":[}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, wrong := lock.Parse("x", text)
		if wrong != nil {
			if wrong.Code != fault.BadRequest || wrong.Line < 0 {
				t.Errorf("%v", wrong)
			}
			return
		}
		again, wrong := lock.Parse("x", l.Text())
		if wrong != nil || len(again.Functions) != len(l.Functions) {
			t.Errorf("%s is read as %s, which is not read again: %v", text, l.Text(), wrong)
		}
	})
}

// FuzzChanges compares any two schemas: a schema does not differ from itself.
func FuzzChanges(f *testing.F) {
	f.Add([]byte(`{"$ref":"#"}`), []byte(`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/a"}}}`))
	f.Add([]byte(`{"type":["string","null"],"enum":["a",null]}`), []byte(`{"oneOf":[{"const":"a"},{"type":"null"}]}`))
	f.Add([]byte(`{"allOf":[{"$ref":"#"}]}`), []byte(`{"properties":{"a":{"items":{"$ref":"#"}}},"required":["a"]}`))
	f.Fuzz(func(t *testing.T, was, is []byte) {
		of := func(schema []byte) *lock.Function {
			fn := lock.Of(&steps.Spec{Name: "srv.t", Input: schema, Output: schema})
			return &fn
		}
		if changes := lock.Changes(of(was), of(was)); changes != nil {
			t.Errorf("%s differs from itself: %v", was, changes)
		}
		for _, c := range lock.Changes(of(was), of(is)) {
			if c.Text == "" || c.Rule == "" {
				t.Errorf("a change without words: %+v", c)
			}
		}
	})
}

// manyFunctions is a lock of n functions as large servers have them.
func manyFunctions(n int) *lock.File {
	l := &lock.File{All: true}
	for i := range n {
		var properties []string
		for j := range 12 {
			properties = append(properties,
				fmt.Sprintf(`"argument%d":{"type":"string","description":"What argument %d of function %d is for, in words."}`, j, j, i))
		}
		l.Functions = append(l.Functions, lock.Of(&steps.Spec{Name: fmt.Sprintf("srv.f%05d", i), Description: "Does something.",
			Input: []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)}))
	}
	return l
}

func BenchmarkParse(b *testing.B) {
	text := manyFunctions(5000).Text()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		l, f := lock.Parse("onecall.lock", text)
		if f != nil || len(l.Functions) != 5000 {
			b.Fatal(f)
		}
	}
}
