package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/procfs"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

// helperVariable names the environment variable that turns the test binary into a helper process.
const helperVariable = "ONECALL_COMPARE_PEER"

// peers are helper programs, each with a behavior of real ones.
var peers = map[string]func(){
	"fine":  func() { fmt.Println("listening on http://127.0.0.1:1234/mcp") },
	"fails": func() { fmt.Fprintln(os.Stderr, "no such option"); os.Exit(3) },
	"hangs": func() { fmt.Println("ready"); time.Sleep(time.Hour) },
	"ignores": func() {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	},
	"stays": func() { // like ignores, but tells its parent that it ignores the signal by closing a pipe
		signal.Ignore(syscall.SIGTERM)
		_ = os.NewFile(3, "pipe").Close()
		time.Sleep(time.Hour)
	},
	"garbage": func() {
		for {
			if _, err := os.Stdout.Write([]byte("\x00\xff\x1b[2J{{{")); err != nil {
				return
			}
		}
	},
	"leaves": func() { // a child that outlives it, and keeps its output open
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), helperVariable+"=stays")
		child.Stdout = os.Stdout
		ignores, started, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		child.ExtraFiles = []*os.File{started}
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("child", child.Process.Pid)
		_ = started.Close()
		_, _ = io.Copy(io.Discard, ignores) // until the child ignores the signal
	},
	"works": func() {
		for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		}
		fmt.Println("worked")
		time.Sleep(time.Hour)
	},
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		peers[name]()
		os.Exit(0)
	}
	grace = 500 * time.Millisecond
	os.Exit(m.Run())
}

func helper(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	return cmd
}

var ready = regexp.MustCompile(`ready`)

func start(ctx context.Context, t *testing.T, name string) *Process {
	t.Helper()
	p, err := Start(ctx, helper(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// assertEnded fails the test unless the whole group of p has ended.
func assertEnded(t *testing.T, p *Process) {
	t.Helper()
	polltest.Until(t, "no process of the group is left", func() bool { return len(members(p.pid())) == 0 })
}

func TestRun(t *testing.T) {
	t.Parallel()
	out, err := Run(t.Context(), helper("fine"), time.Minute)
	if err != nil || out != "listening on http://127.0.0.1:1234/mcp\n" {
		t.Errorf("Run: got %q, %v, want the address that it listens on", out, err)
	}
	if _, err := Run(t.Context(), helper("fails"), time.Minute); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: no such option") {
		t.Errorf("Run of a program that fails: got error %v, want exit status 3: no such option", err)
	}
	if _, err := Run(t.Context(), exec.Command("./no-such-program"), time.Minute); err == nil {
		t.Error("Run of a missing program returned no error")
	}
	_, err = Run(t.Context(), helper("hangs"), 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "still running after 300ms") {
		t.Errorf("Run of a program that hangs: got error %v, want still running after 300ms", err)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	p := start(t.Context(), t, "fine")
	if url, err := p.Await(regexp.MustCompile(`listening on (\S+)`), time.Minute); err != nil || url != "http://127.0.0.1:1234/mcp" {
		t.Errorf("Await: got %q, %v, want http://127.0.0.1:1234/mcp", url, err)
	}
	_, err := p.Await(regexp.MustCompile(`never`), time.Minute)
	if err == nil || !strings.Contains(err.Error(), "ended before it was ready: listening") {
		t.Errorf("Await of a program that has ended: got error %v, want ended before it was ready: listening", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	hangs := start(t.Context(), t, "hangs")
	_, err = hangs.Await(regexp.MustCompile(`never`), 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not ready after 50ms") {
		t.Errorf("Await of a program that does not become ready: got error %v, want not ready after 50ms", err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	p := start(t.Context(), t, "hangs")
	if _, err := p.Await(ready, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	assertEnded(t, p)
}

func TestIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	p := start(t.Context(), t, "ignores")
	if _, err := p.Await(ready, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err == nil || err.Error() != "ignored SIGTERM for 500ms and was killed" {
		t.Errorf("Close: got error %v, want ignored SIGTERM for 500ms and was killed", err)
	}
	assertEnded(t, p)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := start(ctx, t, "ignores")
	if _, err := p.Await(ready, time.Minute); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-p.Done()
	if err := p.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close after the context ended: got error %v, want %v", err, context.Canceled)
	}
	assertEnded(t, p)
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	p := start(t.Context(), t, "garbage")
	if _, err := p.Await(regexp.MustCompile(`{{{`), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Await(ready, 100*time.Millisecond); err == nil || len(err.Error()) > 1000 || !utf8.ValidString(err.Error()) {
		t.Errorf("the error is too long, not UTF-8, or missing: %q", err)
	}
	if out := p.Output(); !strings.Contains(out, ".[2J{{{") || strings.ContainsAny(out, "\x00\x1b") || !utf8.ValidString(out) {
		t.Errorf("the output has control characters, or lacks text: %q", out)
	}
	if len(p.out.String()) > kept {
		t.Errorf("%d bytes of output are kept, want at most %d", len(p.out.String()), kept)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeavesAChild(t *testing.T) {
	t.Parallel()
	if _, err := Self(); err != nil {
		t.Skip(err)
	}
	_, err := Run(t.Context(), helper("leaves"), time.Minute)
	if err == nil || !strings.Contains(err.Error(), "left 1 of its processes running, which were killed: ") {
		t.Fatal(err)
	}
	var child int
	_, after, _ := strings.Cut(err.Error(), "child ")
	if _, err := fmt.Sscan(after, &child); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the child has ended", func() bool {
		p, err := procfs.NewProc(child)
		if err != nil {
			return true
		}
		s, err := p.Stat()
		return err != nil || s.State == "Z"
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	if _, err := Self(); err != nil {
		t.Skip(err)
	}
	p := start(t.Context(), t, "works")
	if _, err := p.Await(regexp.MustCompile(`worked`), time.Minute); err != nil {
		t.Fatal(err)
	}
	u, err := p.Usage()
	if err != nil || u.CPU < 10*time.Millisecond || u.Resident < 1<<20 || u.Peak < u.Resident/2 || u.Files < 3 || u.Processes != 1 {
		t.Errorf("Usage: got %+v, %v, want at least 10 ms, 1 MiB and 3 files, and 1 process", u, err)
	}
	p.Close()
	if u, err := p.Usage(); err == nil {
		t.Errorf("Usage of a process that has ended: %+v, want an error", u)
	}
}

func TestScrub(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("TMPDIR", "/var/tmp/here/")
	if got := Scrub("/home/somebody/x: \x1b[1m/var/tmp/here/y\n"); got != "~/x: .[1m$TMP/y\n" {
		t.Errorf("Scrub returns %q, want %q", got, "~/x: .[1m$TMP/y\n")
	}
}
