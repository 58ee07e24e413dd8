//go:build e2e && unix

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// openBrowser opens a window of Chromium. Scripts that fail and what the browser complains of, such as a violation of a policy, fail the
// test, unless the complaint or its address ends with one of the excused texts.
func openBrowser(t testing.TB, width int64, excused ...string) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("needs chromium in PATH")
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.NoSandbox))
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*clitest.TooLong) // tests look at many pages, beside other browsers
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if !slices.ContainsFunc(excused, func(end string) bool {
				return strings.HasSuffix(e.Entry.URL, end) || strings.HasSuffix(e.Entry.Text, end)
			}) {
				t.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// takePicture writes a picture of a page for a person to look at, if ONECALL_TEST_PICTURES names a folder.
func takePicture(ctx context.Context, t testing.TB, name string) {
	t.Helper()
	folder := os.Getenv("ONECALL_TEST_PICTURES")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
