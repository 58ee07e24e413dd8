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

// TestContainerBinary builds the binaries with the commands of the container files. The binaries must run without any other file, and
// onecall must have the flags that it is started with.
func TestContainerBinary(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("builds a binary for Linux, and runs it")
	}
	buildBinary(t, "compose/Containerfile", "onecall-temporal")
	binary := buildBinary(t, "Containerfile", "onecall")
	checkExitStatuses(t, binary)
	help, err := exec.Command(binary, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("serve --help: %v: %s", err, help)
	}
	for _, word := range startArguments(t) {
		if strings.HasPrefix(word, "--") && !strings.Contains(string(help), word+" ") {
			t.Errorf("serve has no flag %s:\n%s", word, help)
		}
	}
}

// buildBinary builds the binary of a container file, and runs it.
func buildBinary(t *testing.T, file, name string) (binary string) {
	t.Helper()
	var build string
	for _, inst := range instructions(t, file) {
		if inst.name == "RUN" && strings.Contains(inst.args, " build ") {
			build = inst.args
		}
	}
	binary = filepath.Join(t.TempDir(), name)
	if !strings.Contains(build, "-o /out/"+name+" ") {
		t.Fatalf("%s: the build command is %q, want one with -o /out/%s", file, build, name)
	}
	cmd := exec.Command("sh", "-c", strings.Replace(build, "/out/"+name, binary, 1))
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: got error %v, want none: %s", build, err, out)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s is not static: it needs a program interpreter", name)
		}
	}
	empty := exec.Command(binary, "call", "--lite", "expr.eval", "expression=40+2")
	empty.Dir, empty.Env = t.TempDir(), []string{"HOME=/nonexistent"}
	if out, err := empty.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Errorf("%s call without any other file: %v, %s, want 42", name, err, out)
	}
	return binary
}

// checkExitStatuses checks that the unit does not restart a server that cannot start.
func checkExitStatuses(t *testing.T, binary string) {
	t.Helper()
	text, err := os.ReadFile("onecall.service")
	if err != nil {
		t.Fatal(err)
	}
	prevent := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindStringSubmatch(string(text))
	if prevent == nil {
		t.Fatal("the unit has no RestartPreventExitStatus")
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
			t.Errorf("%q: exit status %s, which RestartPreventExitStatus=%s lacks: %s", args, status, prevent[1], out)
		}
	}
}

// startArguments returns the arguments with which the container and the unit start the program.
func startArguments(t *testing.T) []string {
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
		t.Fatal("the unit has no ExecStart with arguments")
	}
	return append(words, strings.Fields(start[1])...)
}
