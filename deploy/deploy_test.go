// Package deploy holds the files to deploy onecall: the systemd unit, container files, the plugin and the site.
package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// writeUnit writes the unit with the test binary in place of onecall, which may not be installed, and returns its path.
func writeUnit(t *testing.T) (path string) {
	t.Helper()
	text, err := os.ReadFile("onecall.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const installed = "/usr/local/bin/onecall"
	if !strings.Contains(string(text), "ExecStart="+installed+" serve ") {
		t.Fatal("the unit does not start " + installed)
	}
	path = filepath.Join(t.TempDir(), "onecall.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), installed, program)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed (Debian package systemd)")
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	return string(out), err
}

// TestUnit checks that systemd reports no fault in the unit, such as an unknown key.
func TestUnit(t *testing.T) {
	t.Parallel()
	out, err := analyze(t, "verify", "--man=no", writeUnit(t))
	if err != nil || strings.Contains(out, "onecall.service") {
		t.Errorf("systemd-analyze verify: got error %v, want none, and nothing about onecall.service: %s", err, out)
	}
}

// maxExposure is the highest accepted exposure level, from 0 to 10. A service that uses the network and starts arbitrary programs
// cannot have a lower one.
const maxExposure = 2.0

var exposure = regexp.MustCompile(`Overall exposure level for onecall\.service: ([0-9.]+)`)

// TestUnitIsHardened checks the exposure level that systemd computes for the unit.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	out, err := analyze(t, "security", "--offline=yes", "--no-pager", writeUnit(t))
	if err != nil && strings.Contains(out, "offline") {
		t.Skip("needs systemd-analyze 250 or newer, which accepts a unit that is not installed: ", out)
	}
	match := exposure.FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("systemd-analyze security: got no exposure, %v: %s", err, out)
	}
	level, err := strconv.ParseFloat(match[1], 64)
	if t.Logf("exposure %s", match[1]); err != nil || level > maxExposure {
		t.Errorf("the exposure is %s, want at most %v:\n%s", match[1], maxExposure, out)
	}
}

// instruction is an instruction of a container file.
type instruction struct{ name, args string }

// instructions parses a container file. Lines that begin with # are comments, and a trailing \ joins lines.
func instructions(t *testing.T, file string) []instruction {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []instruction
	var joined string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		piece, more := strings.CutSuffix(line, `\`)
		if joined += piece; more {
			continue
		}
		name, args, _ := strings.Cut(joined, " ")
		list, joined = append(list, instruction{name, strings.TrimSpace(args)}), ""
	}
	return list
}

// last returns the arguments of an instruction in the last stage, the last one if there are several, "" if there is none.
func last(list []instruction, name string) (args string) {
	for _, inst := range list {
		switch inst.name {
		case "FROM":
			args = ""
			if name == "FROM" {
				args = inst.args
			}
		case name:
			args = inst.args
		}
	}
	return args
}

// TestContainer checks that the images hold only the copied files, run as an unprivileged user, and start a program that they hold.
func TestContainer(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"Containerfile", "compose/Containerfile"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			checkContainer(t, instructions(t, file))
		})
	}
}

func checkContainer(t *testing.T, list []instruction) {
	t.Helper()
	known := []string{"FROM", "ARG", "LABEL", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
	stages := map[string]bool{}
	var copied []string
	for _, inst := range list {
		if !slices.Contains(known, inst.name) {
			t.Errorf("unknown instruction %q", inst.name)
		}
		fields := strings.Fields(inst.args)
		switch inst.name {
		case "FROM":
			copied = nil
			if n := len(fields); n > 2 && fields[n-2] == "AS" {
				stages[fields[n-1]] = true
			}
		case "COPY":
			if stage, ok := strings.CutPrefix(fields[0], "--from="); ok && !stages[stage] {
				t.Errorf("COPY from the unknown stage %s: %s", stage, inst.args)
			}
			copied = append(copied, fields[len(fields)-1])
		}
	}
	if from := last(list, "FROM"); from != "scratch" {
		t.Errorf("the last stage is built from %q, want scratch", from)
	}
	if user := last(list, "USER"); user != "65532:65532" {
		t.Errorf("USER is %q, want 65532:65532: an orchestrator can tell from a number that it is not root", user)
	}
	var entry, cmd []string
	if json.Unmarshal([]byte(last(list, "ENTRYPOINT")), &entry) != nil || json.Unmarshal([]byte(last(list, "CMD")), &cmd) != nil ||
		len(entry) != 1 || len(cmd) == 0 {
		t.Fatalf("ENTRYPOINT %q and CMD %q: want lists of words, as the image has no shell", last(list, "ENTRYPOINT"), last(list, "CMD"))
	}
	if !slices.Contains(copied, entry[0]) {
		t.Errorf("ENTRYPOINT is %s, which is not among the copied files %q", entry[0], copied)
	}
	if !slices.Contains(copied, "/etc/ssl/certs/ca-certificates.crt") {
		t.Errorf("the copied files %q lack the certificates", copied)
	}
}
