package ladder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps/schema"
)

func TestMaxSubjects(t *testing.T) {
	t.Parallel()
	l := newLadder(t, Options{Mode: Enforce, MaxSubjects: 3})
	r := l.Wrap((&backend{}).registry(t))
	ctx := session(t)
	for _, id := range []string{"1", "2", "3", "1", "4"} {
		call(ctx, t, r, code[1], `{"symbolId":`+id+`}`)
	}
	for id, known := range map[string]bool{"1": true, "2": false, "3": true, "4": true} {
		if f := call(ctx, t, r, code[2], `{"symbolId":`+id+`}`); (f == nil) != known {
			t.Errorf("subject %s: got %v, want known %t", id, f, known)
		}
	}
	call(ctx, t, r, code[0], `{"query":[`+strings.Repeat(`{"symbolId":1},`, 10)+`{"symbolId":9}]}`)
	if n := l.memory(ctx).seen.Len(); n != 3 {
		t.Errorf("%d subjects are stored, want 3", n)
	}
}

// TestConcurrentCalls is for the race detector, and checks that no subject is lost.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	l := newLadder(t, Options{Mode: Enforce})
	r := l.Wrap((&backend{}).registry(t))
	ctx := session(t)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := range 50 {
				args := fmt.Sprintf(`{"symbolId":"%d-%d"}`, i, n)
				for _, name := range code[1:] {
					if f := call(ctx, t, r, name, args); f != nil {
						t.Error(f)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if n := l.memory(ctx).seen.Len(); n != 1600 {
		t.Errorf("%d subjects are stored, want 1600", n)
	}
}

func BenchmarkMatches(b *testing.B) {
	result := []byte(`[` + strings.Repeat(`{"symbolId":"abcdefgh","name":"something","text":"`+strings.Repeat("x", 100)+`"},`, 6000) + `1]`)
	b.SetBytes(int64(len(result)))
	for b.Loop() {
		if n := len(subjectsIn(result, "symbolid", defaultMaxSubjects)); n != defaultMaxSubjects {
			b.Fatalf("%d subjects, want %d", n, defaultMaxSubjects)
		}
	}
}

// FuzzSubject: any JSON value is recognized as a subject in arguments and in results, without a panic.
func FuzzSubject(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud800"`, `1`, `-0`, `1e999`, `1.0`, `true`, `null`, `{}`, `{"a":1,"a":2}`,
		`[1,[2],{"symbolId":3}]`, `{"symbolId":{"symbolId":"x"}}`,
		`"\\\""`, `""`, `[]`, `[[]]`, `{"symbol\u0049d":"]"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		compact, err := schema.Compact(value)
		if err != nil {
			return
		}
		var inArgs []key
		for _, s := range subjectsOf([]byte(`{"z":[1],"symbolId":`+string(compact)+`,"y":{}}`), "symbolId") {
			inArgs = append(inArgs, s.key)
		}
		inResult := subjectsIn([]byte(`[{"y":"symbolId","symbol-ID":`+string(compact)+`,"x":"}"}]`), "symbolid", 1_000_000)
		if !slices.Equal(inArgs, inResult) {
			t.Errorf("%s has %d subjects as an argument, want the %d of a result", compact, len(inArgs), len(inResult))
		}
		v := gjson.ParseBytes(compact)
		none := v.Type == gjson.Null || v.Type == gjson.String && v.Str == "" || v.IsArray()
		if len(inArgs) == 0 && !none || len(inArgs) > 1 && !v.IsArray() {
			t.Errorf("%s has %d subjects as an argument, want one, or none of an empty value", compact, len(inArgs))
		}
		if len(subjectsIn(compact, "symbolid", 2)) > 2 {
			t.Error("subjectsIn returns more subjects than its limit")
		}
	})
}

// FuzzMatches: a result that is not JSON causes no panic.
func FuzzMatches(f *testing.F) {
	f.Add([]byte(`{"symbolId":`))
	f.Add([]byte(`"symbolId":}`))
	f.Add([]byte(`"symbolId":"\`))
	f.Fuzz(func(_ *testing.T, result []byte) { subjectsIn(result, "symbolid", 10) })
}

// TestDeepResults: the time to search a result is linear in its length, whatever its nesting. With quadratic time, this would take minutes.
func TestDeepResults(t *testing.T) {
	t.Parallel()
	const n = 400_000
	for _, deep := range []string{
		strings.Repeat(`{"symbolId":`, n) + `"x"` + strings.Repeat(`}`, n),
		strings.Repeat(`{"a":[`, n) + `{"symbolId":"x"}` + strings.Repeat(`]}`, n),
		`[` + strings.Repeat(`{"symbolId":null},`, n) + `{"symbolId":"x"}]`,
	} {
		if got := subjectsIn([]byte(deep), "symbolid", 10); len(got) != 1 {
			t.Errorf("%.20s: got %d subjects, want 1", deep, len(got))
		}
	}
}

// FuzzSubjectName: any argument name is rejected, or a ladder finds its subjects by that name.
func FuzzSubjectName(f *testing.F) {
	for _, name := range []string{"symbolId", "_", "-", "", "-_-", "a", "_a", "é", "Ⱥx", "İ", "\u212a", "日本", "a\"b", "a.b", "\x00", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		l, faults := New(&Options{Mode: Enforce, Subject: name, Rungs: code})
		if l == nil {
			if len(faults) != 1 || faults[0].At != "/subject" || strings.Trim(name, "_-") != "" {
				t.Fatalf("New rejects the subject %q: %v", name, faults)
			}
			return
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		var decoded string
		if json.Unmarshal(quoted, &decoded) != nil || decoded != name { // a name that is not UTF-8 cannot be a name in JSON
			return
		}
		result := `{"other":1,` + string(quoted) + `:"x"}`
		r := l.Wrap((&backend{}).registry(t))
		ctx := session(t)
		call(ctx, t, r, code[0], `{"query":`+result+`}`)
		if keys := subjectsIn([]byte(result), fold(name), 10); len(keys) != 1 && fold(name) != "other" {
			t.Errorf("got %d subjects by the name %q, want 1", len(keys), name)
		}
	})
}
