package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

var varying = regexp.MustCompile(`run_[a-z0-9]{26}|[0-9]+ ms|127\.0\.0\.1:[0-9]+`)

// TestTerminal checks what a person at a terminal sees of a success and of a failure. With --json the answer is JSON.
func TestTerminal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"at":%q,"esc":"\u001b[31m"}`, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	clitest.Write(t, dir, "onecall.yaml", fmt.Sprintf(`journal: {store: memory}
approve: destroy
http:
  allow: [%q]
  endpoints:
    put: {method: POST, url: %q}
    refused: {method: POST, url: %q}
    drop: {method: DELETE, url: %q}
    here: {method: GET, url: %q}
`, strings.TrimPrefix(server.URL, "http://"), server.URL+"/put", server.URL+"/no", server.URL+"/drop", server.URL+"/here"))
	config := filepath.Join(dir, "onecall.yaml")
	run := func(terminal bool, chain string, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		width := func() int { return 100 }
		s := &streams{in: strings.NewReader(chain), out: &stdout, err: &stderr, outTerminal: terminal, outWidth: width, errWidth: width}
		root := newRoot(s, nil)
		root.SetArgs(append(args, "--config", config))
		status := s.exitStatus(root.ExecuteContext(t.Context()))
		all := fmt.Sprintf("%s--\n%s-- exit %d\n", stdout.String(), stderr.String(), status)
		all = strings.ReplaceAll(all, " --config "+config, "")
		return varying.ReplaceAllStringFunc(all, func(s string) string {
			switch {
			case strings.HasPrefix(s, "run_"):
				return "RUN"
			case strings.HasPrefix(s, "127"):
				return "URL"
			}
			return "N ms"
		})
	}
	for name, test := range map[string]struct {
		chain string
		args  []string
		want  string
	}{
		"result": {`{"steps":[{"expr":"{a: [1.50, 2], b: 'x\u001b'}"}]}`, nil,
			"{\n  \"a\": [1.5, 2],\n  \"b\": \"x\\u001b\"\n}\n--\n-- exit 0\n"},
		"rows": {`{"input":{"r":[{"a":1.50,"b":"x"},{"b":"\u001by","c":null}]},"steps":[{"expr":"$input.r"}]}`, nil,
			"a     b   c\n1.50  x\n      ·y  null\n--\n-- exit 0\n"},
		"nested": {`{"input":{"r":[{"a":1},{"a":[]}]},"steps":[{"expr":"$input.r"}]}`, nil,
			"[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": []\n  }\n]\n--\n-- exit 0\n"},
		"mixed":   {`{"input":{"r":[{"a":1},2]},"steps":[{"expr":"$input.r"}]}`, nil, "[\n  {\n    \"a\": 1\n  },\n  2\n]\n--\n-- exit 0\n"},
		"nothing": {`{"input":{"r":[{},{}]},"steps":[{"expr":"$input.r"}]}`, nil, "[\n  {},\n  {}\n]\n--\n-- exit 0\n"},
		"steps": {`{"steps":[{"id":"one","expr":"1"},{"fn":"text.match","args":{"text":"a","pattern":"b"},"when":"$one > 1"}]}`,
			[]string{"--trace", "summary"},
			"null\n--\n0  one  expr        ok              N ms  1 token\n1       text.match  skipped (when)  N ms  0 tokens\n-- exit 0\n"},
		"orElse": {`{"steps":[{"id":"all","fn":"text.match","forEach":"['a','(','(']","args":{"text":"a","pattern":"$item"},"orElse":0},` +
			`{"fn":"fs.cat","args":{"path":"none"},"orElse":[]}]}`, nil, `[]
--
step 0 (all): 2 of 3 elements failed, and orElse stands in for each
step 1 failed, and orElse stands in for its result
-- exit 0
`},
		"failure": {`{"steps":[{"id":"one","fn":"http.put"},
  {"id":"two","fn":"http.refused"},{"fn":"http.put"}]}`, nil, `--
step 0 (one)  http.put  applied
-:2:3: function_failed: step 1 (two): URL answered 400 Bad Request
      {"id":"two","fn":"http.refused"},{"fn":"http.put"}]}
      ^
    it answered: {"at":"/no","esc":"\u001b[31m"}
    it takes: http.refused()
Fix it and go on; nothing is done twice: onecall resume RUN [FILE], or onecall console
-- exit 1
`},
		"approval": {`{"steps":[{"fn":"http.drop"}]}`, nil, `--
-:1:11: approval_required: step 0: http.drop waits for approval; it was not sent: send resume with approve, or resume once a person has approved with onecall approve or in onecall console
    {"steps":[{"fn":"http.drop"}]}
              ^
  0  http.drop  destroy
Approve them: onecall approve RUN, then onecall resume RUN
-- exit 1
`},
		"faults": {`{"steps":[{"fn":"http.putt"}]}`, nil,
			"--\n-:1:17: unknown_function: there is no function \"http.putt\": did you mean http.put, http.get, http.request?\n    {\"steps\":[{\"fn\":\"http.putt\"}]}\n                    ^\n-- exit 3\n"},
		"json":   {`{"steps":[{"expr":"'a\\nb'"}],"lite":true}`, []string{"--json"}, "\"a\\nb\"\n--\n-- exit 0\n"},
		"format": {`{"steps":[{"expr":"[{n: 1, s: 'a\\nb\u001b'}]"}]}`, []string{"--format", "csv"}, "n,s\n1,\"a\nb\"\n--\n-- exit 0\n"},
		"format, with a trace": {`{"steps":[{"expr":"[{n: 1}]"}]}`, []string{"--format", "csv", "--trace", "summary"},
			"n\n1\n--\n0    expr  ok  N ms  6 tokens\n-- exit 0\n"},
		"raw": {`{"steps":[{"expr":"'a\\nb\u001b'"}]}`, []string{"--raw"}, "a\nb\n--\n-- exit 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run(true, test.chain, append([]string{"run", "-"}, test.args...)...); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	rows := func(fn string) string { // whose result is more than a table shows
		return run(true, `{"steps":[{"fn":"`+fn+`"},{"expr":"map(1..201, ({n: #}))"}]}`, "run", "-")
	}
	if got := rows("http.here"); !strings.HasPrefix(got, "n\n1\n") || !strings.Contains(got, "1 row more: --json shows all") {
		t.Errorf("of a chain that only reads, want a table, and how to see the rest, got\n%s", got)
	}
	if got := rows("http.put"); !strings.HasPrefix(got, "[") || !strings.Contains(got, "201") || strings.Contains(got, "--json") {
		t.Errorf("of a chain that writes, want all rows, since a second run would write again, got\n%s", got)
	}
	if got, want := run(false, `{"steps":[{"expr":"'a\\nb\u001b'"}]}`, "run", "-", "--raw"), "a\nb\x1b\n--\n-- exit 0\n"; got != want {
		t.Errorf("raw, in a pipe: %q, want %q", got, want)
	}
}

// TestConflictAtTerminal: a person is asked to find out what became of a call only if that is not known.
func TestConflictAtTerminal(t *testing.T) {
	t.Parallel()
	for writes, want := range map[string]string{
		`[{"at":"1","outcome":"applied"}]`: "Put back what is applied as it was, and go on: onecall resume RUN a.json; or take it back: onecall undo RUN",
		`[{"at":"1","outcome":"sent_unknown"}]`: "Find out whether each call was done (if not: 'PLACE=not_sent'), and go on: " +
			"onecall resume RUN --assume '1=applied' a.json",
	} {
		var stderr strings.Builder
		f := &fault.Error{Code: fault.ResumeConflict, Available: []string{"1"}}
		answer := `{"error":{"code":"resume_conflict","message":"no","available":["1"]},"writes":` + writes + `,"resume":"RUN"}`
		c := &cli{streams: &streams{err: &stderr}}
		c.showFailure(&document{name: "a.json", file: "a.json"}, &chain.Answer{Error: f}, gjson.Parse(answer))
		if !strings.HasSuffix(strings.TrimSpace(stderr.String()), want) {
			t.Errorf("%s: got\n%s\nwant at its end\n%s", writes, stderr.String(), want)
		}
	}
}

// TestHugeResult checks that a terminal gets the first part of 50 MB, without broken characters, and how to get the rest.
func TestHugeResult(t *testing.T) {
	t.Parallel()
	huge := `"a` + strings.Repeat("日", 50<<20/3) + `"`
	var stdout, stderr bytes.Buffer
	s := &streams{out: &stdout, err: &stderr, outTerminal: true, outWidth: func() int { return 80 }}
	for _, raw := range []bool{false, true} {
		s.raw = raw
		out, err := s.newOutput("")
		if err != nil {
			t.Fatal(err)
		}
		if stdout.Reset(); raw {
			err = out.writeResult([]byte(huge))
		} else {
			err = (&cli{streams: s}).showResult(out, gjson.Parse(huge))
		}
		if err = errors.Join(err, out.commit()); err != nil {
			t.Fatal(err)
		}
		if n := stdout.Len(); n < maxShown/2 || n > maxShown+10 || strings.ContainsRune(stdout.String(), utf8.RuneError) {
			t.Errorf("raw %t: %d bytes shown, want about %d in whole characters", raw, n, maxShown)
		}
		if raw && out.fullSize != len(huge)-2 || !raw &&
			!strings.Contains(stderr.String(), fmt.Sprintf("Cut here: the result has %d bytes.", len(huge))) {
			t.Errorf("raw %t: size %d, want the full size on stderr: %s", raw, out.fullSize, stderr.String())
		}
	}
}

// TestFetchableResults checks that a terminal says how to fetch a large result, and nothing of the token of one that is told completely.
func TestFetchableResults(t *testing.T) {
	t.Parallel()
	for result, large := range map[string]bool{
		`{"preview":"[1","available_modes":["paginated"],"continuation_token":"oc1_1"}`:     true,
		`{"unchanged":true,"since":"2026-01-01T00:00:00Z","continuation_token":"oc1_1"}`:    false,
		`{"changed":"--- a\n","since":"2026-01-01T00:00:00Z","continuation_token":"oc1_1"}`: false,
	} {
		var stdout, stderr bytes.Buffer
		s := &streams{out: &stdout, err: &stderr, outTerminal: true, outWidth: func() int { return 80 }}
		out, err := s.newOutput("")
		if err != nil {
			t.Fatal(err)
		}
		if err := (&cli{streams: s}).showResult(out, gjson.Parse(result)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(stderr.String(), "onecall fetch oc1_1 --mode paginated"); got != large {
			t.Errorf("%s: got %q on stderr", result, stderr.String())
		}
	}
}

// TestToolsAtTerminal checks that each function has one line at any width, with wide and control characters.
func TestToolsAtTerminal(t *testing.T) {
	t.Parallel()
	list := &toolList{Functions: []toolFunction{
		{Name: "a.long.name.of.a.function", Effect: "destroy", Tokens: 12345, Description: "Does it, e.g. this. And more."},
		{Name: "日本.b", Effect: "read", Tokens: 1, Description: "\x1b[31mred\nand so on"}},
		Sources: []toolSource{{Name: "fs", State: "ready", Functions: 4}, {Name: "gone", State: "failed", Error: "no such\x1b command"},
			{Name: "files", State: "ready", Functions: 14}}}
	var out strings.Builder
	s := &streams{out: &out, outWidth: func() int { return 60 }}
	if err := s.showTable(list); err != nil {
		t.Fatal(err)
	}
	const want = `the source "gone" is failed: no such· command
the source "files" is ready: 14 functions
FUNCTION                   EFFECT   TOKENS  WHAT IT DOES
a.long.name.of.a.function  destroy   12345  Does it, e.g. t…
日本.b                     read          1  ·[31mred
2 functions, 12346 tokens; with the tool chain, an agent reads fewer than 600. onecall tools NAME shows one in full.
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for width := range 50 {
		out.Reset()
		s.outWidth = func() int { return width }
		if err := s.showTable(list); err != nil || strings.Count(out.String(), "\n") != 6 {
			t.Errorf("width %d: got error %v and\n%s\nwant 6 lines", width, err, out.String())
		}
	}
}

// TestAllDown checks that embedded sources do not hide that all others are down.
func TestAllDown(t *testing.T) {
	t.Parallel()
	fs, up, down := toolSource{Name: "fs", State: "ready"}, toolSource{Name: "a", State: "ready"},
		toolSource{Name: "b", State: "failed", Error: "gone"}
	for _, test := range []struct {
		sources []toolSource
		want    bool
	}{{[]toolSource{fs}, false}, {[]toolSource{fs, up}, false}, {[]toolSource{fs, up, down}, false}, {[]toolSource{fs, down}, true}} {
		if got := (&toolList{Sources: test.sources}).allDown(); got != test.want {
			t.Errorf("%v: all down is %t, want %t", test.sources, got, test.want)
		}
	}
}
