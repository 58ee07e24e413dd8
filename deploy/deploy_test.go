// Package deploy holds what runs onecall for others: a unit of systemd and a container file.
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

// unit is the unit with a program in place of onecall that this machine has.
func unit(t *testing.T) (path string) {
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

// TestUnit: systemd finds nothing wrong with the unit, not even an unknown key.
func TestUnit(t *testing.T) {
	t.Parallel()
	out, err := analyze(t, "verify", "--man=no", unit(t))
	if err != nil || strings.Contains(out, "onecall.service") {
		t.Errorf("%v: %s", err, out)
	}
}

// maxExposed is the exposure, from 0 to 10, that systemd may find: a service that needs the network, and starts programs that
// it does not know, is not below.
const maxExposed = 2.0

var exposure = regexp.MustCompile(`Overall exposure level for onecall\.service: ([0-9.]+)`)

// TestUnitIsHardened: systemd's own judgement of what the service may do.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	out, err := analyze(t, "security", "--offline=yes", "--no-pager", unit(t))
	if err != nil && strings.Contains(out, "offline") {
		t.Skip("systemd-analyze of this machine cannot judge a unit that is not installed (it needs version 250): ", out)
	}
	match := exposure.FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("%v: %s", err, out)
	}
	level, err := strconv.ParseFloat(match[1], 64)
	if t.Logf("exposure %s", match[1]); err != nil || level > maxExposed {
		t.Errorf("the exposure is %s, above %v:\n%s", match[1], maxExposed, out)
	}
}

// instruction is one of the container file.
type instruction struct{ name, rest string }

// instructions reads a container file as its format says: comments are lines that begin with #, \ joins lines.
func instructions(t *testing.T, file string) []instruction {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []instruction
	var whole string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		piece, more := strings.CutSuffix(line, `\`)
		if whole += piece; more {
			continue
		}
		name, rest, _ := strings.Cut(whole, " ")
		list, whole = append(list, instruction{name, strings.TrimSpace(rest)}), ""
	}
	return list
}

// last gives what the last stage says by an instruction, "" where it says nothing.
func last(list []instruction, name string) (rest string) {
	for _, one := range list {
		switch one.name {
		case "FROM":
			rest = ""
			if name == "FROM" {
				rest = one.rest
			}
		case name:
			rest = one.rest
		}
	}
	return rest
}

// TestContainer: the images are empty but for what is copied, their user has no rights, and they start what they hold.
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
	for _, one := range list {
		if !slices.Contains(known, one.name) {
			t.Errorf("the instruction %q is not known here", one.name)
		}
		fields := strings.Fields(one.rest)
		switch one.name {
		case "FROM":
			copied = nil
			if n := len(fields); n > 2 && fields[n-2] == "AS" {
				stages[fields[n-1]] = true
			}
		case "COPY":
			if from, is := strings.CutPrefix(fields[0], "--from="); is && !stages[from] {
				t.Errorf("there is no stage %s: %s", from, one.rest)
			}
			copied = append(copied, fields[len(fields)-1])
		}
	}
	if from := last(list, "FROM"); from != "scratch" {
		t.Errorf("the image is made from %q", from)
	}
	if user := last(list, "USER"); user != "65532:65532" {
		t.Errorf("it runs as %q: a number tells an orchestrator that it is not root", user)
	}
	var entry, cmd []string
	if json.Unmarshal([]byte(last(list, "ENTRYPOINT")), &entry) != nil || json.Unmarshal([]byte(last(list, "CMD")), &cmd) != nil ||
		len(entry) != 1 || len(cmd) == 0 {
		t.Fatalf("ENTRYPOINT %q and CMD %q are not lists: there is no shell", last(list, "ENTRYPOINT"), last(list, "CMD"))
	}
	if !slices.Contains(copied, entry[0]) {
		t.Errorf("%s is started, and %q is there", entry[0], copied)
	}
	if !slices.Contains(copied, "/etc/ssl/certs/ca-certificates.crt") {
		t.Error("no certificates are there")
	}
}
