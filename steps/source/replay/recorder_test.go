package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// saltLine is the first line of a recording; digests replace secrets.
var (
	saltLine = regexp.MustCompile(`^\{"salt":"[A-Z2-7]{26}"\}\n`)
	digests  = regexp.MustCompile(`(secret\\?":\\?")[A-Za-z0-9_-]{24}`)
)

func TestLines(t *testing.T) {
	t.Parallel()
	read := steps.Spec{Name: "s.read", Effect: steps.Read, EffectDeclared: true}
	tests := []struct {
		name   string
		ctx    context.Context
		spec   steps.Spec
		args   string
		result string
		err    error
		want   string
	}{
		{"a write", t.Context(), steps.Spec{Name: "s.f"}, `{"b":1.10,"a":"\u00e9"}`, `{"z":717897987691852588770249}`, nil,
			`{"fn":"s.f","args":{"b":1.10,"a":"\u00e9"},"result":{"z":717897987691852588770249}}`},
		{"a declared read", t.Context(), read, `{}`, `null`, nil, `{"fn":"s.read","args":{},"result":null,"effect":"read"}`},
		{"an assumed read", t.Context(), steps.Spec{Name: "s.f", Effect: steps.Read}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a declared write", t.Context(), steps.Spec{Name: "s.f", EffectDeclared: true}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a declared destruction", t.Context(), steps.Spec{Name: "s.f", Effect: steps.Destroy, EffectDeclared: true}, `{}`, `1`, nil,
			`{"fn":"s.f","args":{},"result":1,"effect":"destroy"}`},
		{"of a chain", replay.WithChain(t.Context(), `<a> "b"`), steps.Spec{Name: "s.f"}, `{}`, `"<>&"`, nil,
			`{"fn":"s.f","args":{},"result":"<>&","chain":"<a> \"b\""}`},
		{"of no chain", replay.WithChain(t.Context(), ""), steps.Spec{Name: "s.f"}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a coded error", t.Context(), steps.Spec{Name: "s.f"}, `{}`, ``,
			fmt.Errorf("wrapped: %w", &fault.Error{Code: fault.Busy, Message: "x\ny"}),
			`{"fn":"s.f","args":{},"error":{"code":"busy","message":"x\ny"}}`},
		{"a secret", t.Context(), steps.Spec{Name: "s.f", Redact: hideKey}, `{"key":"topsecr3t"}`, `1`, nil,
			`{"fn":"s.f","args":{"key":{"secret":"KEY"}},"result":1}`},
		{"by its name", t.Context(),
			steps.Spec{Name: "s.f", Input: []byte(`{"properties":{"password":{"type":"string"},"pageToken":{"type":"string"}}}`)},
			`{"password":"topsecr3t","pageToken":"topsecr3t2"}`, `{"environment":"production"}`, nil,
			`{"fn":"s.f","args":{"password":{"secret":"KEY"},"pageToken":"topsecr3t2"},"result":{"environment":"production"}}`},
		{"a result that repeats a secret", t.Context(), steps.Spec{Name: "s.f", Redact: hideKey}, `{"key":"topsecr3t"}`, `"got topsecr3t!"`, nil,
			`{"fn":"s.f","args":{"key":{"secret":"KEY"}},"result":"got {\"secret\":\"KEY\"}!"}`},
		{"an answered failure", t.Context(), steps.Spec{Name: "s.f"}, `{}`, ``,
			&fault.Error{Code: fault.FunctionFailed, Message: "no", Status: 404, Outcome: fault.SentUnknown, Body: []byte(`{"a":1.0}`)},
			`{"fn":"s.f","args":{},"error":{"code":"function_failed","message":"no","status":404,"outcome":"sent_unknown","body":{"a":1.0}}}`},
	}
	for _, test := range tests {
		var file bytes.Buffer
		recorder := replay.NewRecorder(&file, nil)
		recorder.Observe(test.ctx, &test.spec, []byte(test.args), []byte(test.result), test.err)
		got := digests.ReplaceAllString(saltLine.ReplaceAllString(file.String(), ""), "${1}KEY")
		if got != test.want+"\n" || recorder.Err() != nil {
			t.Errorf("%s:\ngot  %swant %s\n%v", test.name, got, test.want, recorder.Err())
		}
	}
}

// answering makes a registry of one function, s.f.
func answering(t testing.TB, call steps.Call) *steps.Registry {
	t.Helper()
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.f"}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// TestAbandonedCalls has a function that ignores its deadline: the recording has the error that the caller got.
func TestAbandonedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		recorder := replay.NewRecorder(&file, nil)
		recorded := answering(t, func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Minute)
			return []byte(`"late"`), nil
		}).Observe(recorder.Observe)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := ask(ctx, recorded, "s.f", `{}`)
		time.Sleep(2 * time.Minute)
		if !strings.HasPrefix(got, "timeout: ") || strings.Count(file.String(), "\n") != 2 {
			t.Fatalf("the caller got %s, want timeout; the recording, want 2 lines, is\n%s", got, file.String())
		}
		c, err := replay.Read(&file, "x")
		if err != nil {
			t.Fatal(err)
		}
		if again := ask(c.Cursor(t.Context(), ""), mustRegistry(t, c, recorded), "s.f", `{}`); again != got {
			t.Errorf("the replay gives %s, want %s", again, got)
		}
	})
}

// TestFullDisk: answers stay valid if their lines cannot be written, and no partial line stays. When there is space again, the next line is
// written, after the mark of the gap.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "tape"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	disk := &disk{File: file, capacity: 110}
	var reports []string
	recorder := replay.NewRecorder(disk, &replay.RecorderOptions{Report: func(err error) { reports = append(reports, fmt.Sprint(err)) }})
	recorded := answering(t, func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }).Observe(recorder.Observe)
	for n := range 5 {
		if got := ask(t.Context(), recorded, "s.f", `{}`); got != "1" {
			t.Errorf("call %d: got %s, want 1", n, got)
		}
	}
	if !errors.Is(recorder.Err(), errFull) || !errors.Is(recorder.Failing(), errFull) {
		t.Errorf("got errors %v and %v, want errFull", recorder.Err(), recorder.Failing())
	}
	disk.capacity = 1000
	ask(t.Context(), recorded, "s.f", `{}`)
	const call = `{"fn":"s.f","args":{},"result":1}` + "\n"
	text, err := os.ReadFile(file.Name())
	if want := call + call + `{"gap":3}` + "\n" + call; err != nil || saltLine.ReplaceAllString(string(text), "") != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, text, want)
	}
	if recorder.Failing() != nil || !errors.Is(recorder.Err(), errFull) || !slices.Equal(reports, []string{errFull.Error(), "<nil>"}) {
		t.Errorf("after writing again: Failing is %v, Err is %v, reports are %v; want <nil>, %v, and reports of this error and of its end", recorder.Failing(), recorder.Err(), reports, errFull)
	}
	c, err := replay.Read(bytes.NewReader(text), "x")
	if err != nil || len(c.Warnings()) != 1 {
		t.Errorf("Read: %v, warnings %v, want one", err, c.Warnings())
	}
}

// TestWritingResumes: after a failure, Failing tries to write again. The last line of a function counts, even if it equals an earlier one.
func TestWritingResumes(t *testing.T) {
	t.Parallel()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "tape"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	disk := &disk{File: file}
	var reports []string
	recorder := replay.NewRecorder(disk, &replay.RecorderOptions{Report: func(err error) { reports = append(reports, fmt.Sprint(err)) }})
	recorded := func(value, result string) *steps.Registry {
		r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.f", Defaults: []byte(`{"a":` + value + `}`)},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(result), nil }}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Observe(recorder.Observe)
	}
	ask(t.Context(), recorded("1", "1"), "s.f", `{}`)
	if err := recorder.Failing(); !errors.Is(err, errFull) {
		t.Errorf("Failing on a full disk: got %v, want errFull", err)
	}
	disk.capacity = 1000
	if err := recorder.Failing(); err != nil {
		t.Errorf("Failing after space was freed: %v", err)
	}
	for _, value := range []string{"1", "1", "2", "1"} {
		entry, err := recorded(value, "1").Resolve("s.f")
		if err != nil {
			t.Fatal(err)
		}
		recorder.Functions([]*steps.Entry{entry})
	}
	text, err := os.ReadFile(file.Name())
	if err != nil || strings.Count(string(text), `{"gap":1}`) != 1 || strings.Count(string(text), `{"function"`) != 3 {
		t.Errorf("%v, got\n%s\nwant 1 gap and 3 functions", err, text)
	}
	if len(reports) != 2 || reports[1] != "<nil>" {
		t.Errorf("got reports %q, want 2", reports)
	}
}

// disk is a file on a disk with space for some more bytes.
type disk struct {
	*os.File
	capacity int
}

var errFull = errors.New("no space left")

func (d *disk) Write(p []byte) (int, error) {
	available := min(len(p), d.capacity)
	n, err := d.File.Write(p[:available])
	if d.capacity -= n; err == nil && n < len(p) {
		err = errFull
	}
	return n, err
}

func (d *disk) Truncate(size int64) error {
	info, err := d.Stat()
	if err != nil {
		return err
	}
	d.capacity += int(info.Size() - size)
	return d.File.Truncate(size)
}

func TestConcurrentRecording(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	recorder := replay.NewRecorder(&file, nil)
	recorded := answering(t, func(_ context.Context, args []byte) ([]byte, error) { return args, nil }).Observe(recorder.Observe)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				args := fmt.Sprintf(`{"i":%d,"n":%d}`, i, n)
				if got := ask(t.Context(), recorded, "s.f", args); got != args {
					t.Errorf("got %s, want %s", got, args)
				}
			}
		})
	}
	wg.Wait()
	calls := strings.Count(file.String(), `{"fn"`)
	if _, err := replay.Read(&file, "x"); err != nil || calls != 800 {
		t.Fatalf("%d calls, %v, want 800", calls, err)
	}
}
