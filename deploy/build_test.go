//go:build e2e

package deploy

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestContainerBinary builds the binaries by the container files' own commands: they must need nothing of the image, and
// onecall must have the flags that it is started with.
func TestContainerBinary(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("builds a binary for Linux, and runs it")
	}
	containerBinary(t, "compose/Containerfile", "onecall-temporal")
	binary := containerBinary(t, "Containerfile", "onecall")
	statuses(t, binary)
	help, err := exec.Command(binary, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	for _, word := range startsBy(t) {
		if strings.HasPrefix(word, "--") && !strings.Contains(string(help), word+" ") {
			t.Errorf("serve has no %s:\n%s", word, help)
		}
	}
}

// containerBinary builds what a container file builds, and runs it.
func containerBinary(t *testing.T, file, name string) (binary string) {
	t.Helper()
	var build string
	for _, one := range instructions(t, file) {
		if one.name == "RUN" && strings.Contains(one.rest, " build ") {
			build = one.rest
		}
	}
	binary = filepath.Join(t.TempDir(), name)
	if !strings.Contains(build, "-o /out/"+name+" ") {
		t.Fatalf("it builds by %q", build)
	}
	cmd := exec.Command("sh", "-c", strings.Replace(build, "/out/"+name, binary, 1))
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s is not static: it asks for a loader", name)
		}
	}
	empty := exec.Command(binary, "call", "--lite", "expr.eval", "expression=40+2")
	empty.Dir, empty.Env = t.TempDir(), []string{"HOME=/nonexistent"}
	if out, err := empty.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Errorf("%s without anything around it: %v, %s", name, err, out)
	}
	return binary
}

// statuses compares the statuses that a server ends with to what the unit makes of them.
func statuses(t *testing.T, binary string) {
	t.Helper()
	text, err := os.ReadFile("onecall.service")
	if err != nil {
		t.Fatal(err)
	}
	prevent := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindStringSubmatch(string(text))
	if prevent == nil {
		t.Fatal("the unit restarts what cannot start")
	}
	folder := t.TempDir()
	bad := filepath.Join(folder, "bad.yaml")
	if err := os.WriteFile(bad, []byte("surfaces: flat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--http", "nowhere"}, {"serve", "--config", bad},
		{"serve", "--config", filepath.Join(folder, "none.yaml")}} {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder}
		out, _ := cmd.CombinedOutput()
		if status := strconv.Itoa(cmd.ProcessState.ExitCode()); !slices.Contains(strings.Fields(prevent[1]), status) {
			t.Errorf("%q ends with %s, after which the unit starts it again: %s", args, status, out)
		}
	}
}

// startsBy are the words after the program by which the unit and the container start it.
func startsBy(t *testing.T) []string {
	t.Helper()
	var words []string
	if err := json.Unmarshal([]byte(last(instructions(t, "Containerfile"), "CMD")), &words); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("onecall.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindStringSubmatch(string(text))
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	return append(words, strings.Fields(start[1])...)
}
