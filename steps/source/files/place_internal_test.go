package files

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestFailed: what a system answers to a change becomes a coded fault that names the argument and the path.
func TestFailed(t *testing.T) {
	t.Parallel()
	p := &place{argument: "to", rel: "a/b"}
	for cause, want := range map[error]struct {
		code    fault.Code
		message string
	}{
		syscall.ENOSPC: {fault.FunctionFailed, "no space is left"}, syscall.EDQUOT: {fault.FunctionFailed, "no space is left"},
		syscall.EACCES: {fault.Denied, "does not let"}, syscall.EROFS: {fault.FunctionFailed, "read-only"},
		syscall.ENOENT: {fault.FunctionFailed, "fs.mkdir"}, syscall.EXDEV: {fault.FunctionFailed, "cross-device"},
		fs.ErrClosed: {fault.Unavailable, "closed"}, fmt.Errorf("path escapes from parent"): {fault.Denied, "leads out"},
	} {
		f, _ := fault.As(p.failed(&fs.PathError{Op: "write", Path: "b", Err: cause}))
		if f.Code != want.code || !strings.Contains(f.Message, want.message) || f.At != "/to" || fault.OutcomeOf(f) == fault.SentUnknown {
			t.Errorf("%v: got %v with the outcome %s, want %s with %q", cause, f, fault.OutcomeOf(f), want.code, want.message)
		}
	}
}
