package callcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestTouches holds the table of the package's documentation.
func TestTouches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		write, writeArgs, read, readArgs string
		touched                          bool
	}{
		// resource and resource
		{"n.device.update", "{}", "n.device.list", "{}", true},
		{"n.device.update", `{"id":1}`, "n.device.get", `{"id":2}`, true},
		{"n.device.update", `{"path":"/a"}`, "n.device.get", `{"path":"/b"}`, true},
		{"n.device.update", "{}", "n.site.get", "{}", false},
		{"n.devices.update", "{}", "n.Device.get", "{}", true},
		{"n.policies.update", "{}", "n.policy.get", "{}", true},
		{"n.dcim.device.update", "{}", "n.dcim.site.get", "{}", false},
		{"n.device_type.update", "{}", "n.deviceType.get", "{}", true},
		{"n.device_type.update", "{}", "n.device.get", "{}", false},
		{"n.repo.delete", "{}", "n.repo.issue.comment.list", "{}", true},
		{"n.repo.issue.comment.create", "{}", "n.repo.issue.list", "{}", true},
		{"n.repo.issue.create", "{}", "n.repo.get", "{}", true},
		{"n.repo.issue.create", "{}", "n.issue.list", "{}", true},
		{"n.issue.create", "{}", "n.org.issue.list", "{}", true},
		{"n.repo.issue.create", "{}", "n.repo.pull.list", "{}", false},
		// resource and something else
		{"n.device.update", "{}", "n.search", "{}", true},
		{"n.device.update", "{}", "n.read_file", `{"path":"a"}`, true},
		{"n.write_file", `{"path":"a"}`, "n.device.get", "{}", true},
		{"n.reset", "{}", "n.device.get", "{}", true},
		// neither
		{"n.create_entities", "{}", "n.read_graph", "{}", true},
		{"n.create_entities", "{}", "n.read_file", `{"path":"a"}`, true},
		{"n.write_file", `{"path":"a"}`, "n.read_graph", "{}", true},
		// paths
		{"n.write_file", `{"path":"/a/b.txt","content":"x"}`, "n.read_file", `{"path":"/a/b.txt"}`, true},
		{"n.write_file", `{"path":"/a/b.txt","content":"x"}`, "n.read_file", `{"path":"/a/c.txt","head":3}`, false},
		{"n.write_file", `{"path":"/a/b.txt","content":"x"}`, "n.list_directory", `{"path":"/a"}`, true},
		{"n.write_file", `{"path":"/a/b.txt","content":"x"}`, "n.search_files", `{"path":"/c","pattern":"x","excludePatterns":["y"]}`, false},
		{"n.edit_file", `{"path":"/a","edits":[{"oldText":"/b","newText":"x"}],"dryRun":false}`, "n.read_file", `{"path":"/b"}`, false},
		{"n.edit_block", `{"file_path":"/a","old_string":"x","new_string":"y","expected_replacements":1}`, "n.read_file", `{"path":"/b"}`, false},
		{"n.delete", `{"path":"/a"}`, "n.read_multiple_files", `{"paths":["/b","/a/c"]}`, true},
		{"n.delete", `{"path":"/a"}`, "n.read_multiple_files", `{"paths":["/b","/c"]}`, false},
		{"n.createDirectory", `{"path":"/a/d"}`, "n.getFileInfo", `{"path":"/b"}`, false},
		{"n.write", `{"path":"/a/.gitignore"}`, "n.grep", `{"path":"/a/src","pattern":"x","context":2,"ignoreCase":true}`, true},
		// paths of which something is not sure
		{"n.write_file", `{"path":"/a"}`, "n.grep", `{"pattern":"x"}`, true},
		{"n.write_file", `{"path":"/w/a"}`, "n.read_file", `{"path":"b"}`, true},
		{"n.write_file", `{"path":"a"}`, "n.read_file", `{"path":"C:/b"}`, true},
		{"n.write_file", `{"path":"a"}`, "n.read_file", `{"path":"b"}`, false},
		{"n.write_file", `{"path":"/a"}`, "n.glob", `{"path":"/b","pattern":"/a/*"}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.glob", `{"path":"/b","pattern":"../*"}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.read_file", `{"path":"/b","with":"/a"}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.read_multiple_files", `{"paths":[]}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.read_multiple_files", `{"paths":["/b",null]}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.read_file", `{"path":{"name":"/b"}}`, true},
		{"n.write_file", `{"path":"/a"}`, "n.get_diagnostics", `{"path":"/b"}`, true},
		{"n.write_file", `{"path":"/a","id":5}`, "n.read_file", `{"path":"/b"}`, true},
		{"n.write_file", `{"path":"/a","edits":[{"file":"/b"}]}`, "n.read_file", `{"path":"/b"}`, true},
		{"n.move_file", `{"source":"/a","destination":"/b"}`, "n.read_file", `{"path":"/c"}`, true},
		{"n.run_script", `{"path":"/a"}`, "n.read_file", `{"path":"/b"}`, true},
		// sources
		{"n.device.update", "{}", "m.device.get", "{}", false},
		{"N.device.update", "{}", "n.device.get", "{}", true},
		{"update", "{}", "m.device.get", "{}", true},
	} {
		for _, broken := range []error{nil, errors.New("no")} {
			fn, calls := counted(test.read)
			c := New(nil)
			r := wrapped(t, c, fn, writer(test.write, broken))
			call(t, r, test.read, test.readArgs)
			_, _ = tryCall(t.Context(), r, test.write, test.writeArgs)
			call(t, r, test.read, test.readArgs)
			if touched := calls.Load() == 2; touched != test.touched {
				t.Errorf("%s %s touches %s %s: %t", test.write, test.writeArgs, test.read, test.readArgs, touched)
			}
			holds(t, c)
		}
	}
}

func TestRenamedAcrossSources(t *testing.T) {
	t.Parallel()
	fn, calls := counted("n.device.get")
	c := New(&Options{Source: func(*steps.Spec) string { return "n" }})
	r := wrapped(t, c, fn, writer("other.site.remove", nil), writer("n.site.remove", nil))
	for i, write := range []string{"n.site.remove", "other.site.remove"} {
		call(t, r, "n.device.get", "{}")
		call(t, r, write, "{}")
		call(t, r, "n.device.get", "{}")
		if calls.Load() != int64(1+i) {
			t.Errorf("after %s %d calls", write, calls.Load())
		}
	}
}

// A read that runs when a write comes may have seen what was before it.
func TestReadThatRunsWhenAWriteComes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		write   string
		touched bool
	}{{"s.set", true}, {"s.b.set", false}} {
		synctest.Test(t, func(t *testing.T) {
			fn, calls, _ := taking("s.a.get", 10*time.Second)
			c := New(nil)
			r := wrapped(t, c, fn, writer(test.write, nil))
			var all sync.WaitGroup
			read := func(after time.Duration, want string) {
				all.Go(func() {
					time.Sleep(after)
					if got := call(t, r, "s.a.get", "{}"); got != want {
						t.Errorf("%s: begun after %v: %s, want %s", test.write, after, got, want)
					}
				})
			}
			second := `{"n":1}`
			if test.touched {
				second = `{"n":2}`
			}
			read(0, `{"n":1}`)
			read(2*time.Second, `{"n":1}`)
			read(6*time.Second, second)  // must not join
			read(12*time.Second, second) // must not find the first's answer, though that ended after the write
			read(30*time.Second, second)
			time.Sleep(5 * time.Second)
			call(t, r, test.write, "{}")
			all.Wait()
			if touched := calls.Load() == 2; touched != test.touched {
				t.Errorf("%s: %d calls", test.write, calls.Load())
			}
			holds(t, c)
		})
	}
}

// While a write runs nobody knows whether it is done: reads go through, and are not kept.
func TestReadsWhileAWriteRuns(t *testing.T) {
	t.Parallel()
	for name, otherTouched := range map[string]bool{"s.a.set": false, "s.set": true, "set": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); readsWhileAWriteRuns(t, name, otherTouched) })
	}
}

func readsWhileAWriteRuns(t *testing.T, name string, otherTouched bool) {
	synctest.Test(t, func(t *testing.T) {
		touched, touchedCalls, _ := taking("s.a.get", time.Second)
		other, otherCalls, _ := taking("s.b.get", time.Second)
		write := writer(name, nil)
		write.Call = func(context.Context, []byte) ([]byte, error) {
			time.Sleep(10 * time.Second)
			return []byte("1"), nil
		}
		c := New(nil)
		r := wrapped(t, c, touched, other, write)
		var all sync.WaitGroup
		all.Go(func() { call(t, r, name, "{}") })
		time.Sleep(time.Nanosecond)
		for range 3 {
			for range 2 {
				all.Go(func() { call(t, r, "s.a.get", "{}") })
			}
			call(t, r, "s.b.get", "{}")
		}
		all.Wait()
		others := int64(1)
		if otherTouched {
			others = 3
		}
		if touchedCalls.Load() != 6 || otherCalls.Load() != others {
			t.Errorf("%d calls of the read that is touched, %d of the other", touchedCalls.Load(), otherCalls.Load())
		}
		call(t, r, "s.a.get", "{}")
		call(t, r, "s.a.get", "{}")
		if touchedCalls.Load() != 7 || len(c.sources["s"].writes) != 0 || c.sources[""] != nil && len(c.sources[""].writes) != 0 {
			t.Errorf("after the write: %d calls", touchedCalls.Load())
		}
		holds(t, c)
	})
}

func TestBrokenWriteSettles(t *testing.T) {
	t.Parallel()
	unknown := fault.New(fault.FunctionFailed, "lost")
	unknown.Outcome = fault.SentUnknown
	unsent := fault.New(fault.Unavailable, "down")
	unsent.Outcome = fault.NotSent
	gateway := fault.New(fault.FunctionFailed, "504")
	gateway.Status = 504
	refused := fault.New(fault.FunctionFailed, "409")
	refused.Status = 409
	for name, test := range map[string]struct {
		err     error
		settles bool
	}{
		"done": {nil, false}, "failed": {errors.New("no"), false}, "unknown": {unknown, true}, "not sent": {unsent, false},
		"gateway": {gateway, true}, "refused": {refused, false}, "timeout": {fault.New(fault.Timeout, "late"), true},
		"denied": {fault.New(fault.Denied, "no"), false}, "cancelled": {fault.New(fault.Cancelled, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fn, calls := counted("s.a.get")
				other, otherCalls := counted("s.b.get")
				c := New(nil)
				r := wrapped(t, c, fn, other, writer("s.a.set", test.err))
				_, _ = tryCall(t.Context(), r, "s.a.set", "{}")
				for range 30 {
					call(t, r, "s.a.get", "{}")
					call(t, r, "s.b.get", "{}")
					time.Sleep(settling / 30)
				}
				want := int64(1)
				if test.settles {
					want = 30
				}
				if calls.Load() != want || otherCalls.Load() != 1 {
					t.Errorf("%d calls while it settles, %d of another resource", calls.Load(), otherCalls.Load())
				}
				call(t, r, "s.a.get", "{}")
				call(t, r, "s.a.get", "{}")
				if test.settles && calls.Load() != 31 || len(c.sources["s"].writes) != 0 {
					t.Errorf("%d calls after it has settled", calls.Load())
				}
			})
		})
	}
}

func TestManyBrokenWritesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls := counted("s.a.get")
		fns := []steps.Function{fn}
		for i := range 2 * maxSettling {
			fns = append(fns, writer(fmt.Sprintf("s.x%d.set", i), fault.New(fault.Timeout, "late")))
		}
		c := New(nil)
		r := wrapped(t, c, fns...)
		for i := range 2 * maxSettling {
			_, _ = tryCall(t.Context(), r, fns[i+1].Name, "{}")
			if n := len(c.sources["s"].writes); n > maxSettling {
				t.Fatalf("%d writes are remembered", n)
			}
		}
		call(t, r, "s.a.get", "{}")
		call(t, r, "s.a.get", "{}")
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
		time.Sleep(settling)
		call(t, r, "s.a.get", "{}")
		call(t, r, "s.a.get", "{}")
		if calls.Load() != 3 {
			t.Errorf("%d calls after they have settled", calls.Load())
		}
	})
}

// Those that have settled do not count: what they did not touch stays cached.
func TestBrokenWritesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fn, calls := counted("s.a.get")
		fn.CacheTTL = 24 * time.Hour
		r := wrapped(t, New(nil), fn, writer("s.b.set", fault.New(fault.Timeout, "late")))
		for range 2 * maxSettling {
			_, _ = tryCall(t.Context(), r, "s.b.set", "{}")
			call(t, r, "s.a.get", "{}")
			time.Sleep(settling)
		}
		_, _ = tryCall(t.Context(), r, "s.b.set", "{}")
		for i := range 2 {
			call(t, r, "s.a.get", fmt.Sprintf(`{"new":%d}`, i/2))
		}
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}
