package report

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
)

// cpuName returns the model of the first processor, from /proc/cpuinfo; "unknown" without it.
func cpuName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// loadAverage returns the load average of the last minute; -1 if the system does not report it.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}

// Commit returns the commit of the repository at root, with "-dirty" if a file other than results and documents has changed; "" if git
// fails.
func Commit(root string) string {
	commit, err := exec.Command("git", "-C", root, "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return ""
	}
	changed, err := exec.Command("git", "-C", root, "status", "--porcelain", "--", ".",
		":!bench/results", ":!*.md", ":!*.svg").Output()
	if err != nil {
		return ""
	}
	if len(changed) > 0 {
		return strings.TrimSpace(string(commit)) + "-dirty"
	}
	return strings.TrimSpace(string(commit))
}

// SDK is the module whose client calls all arms, and whose server is a baseline.
const SDK = "github.com/modelcontextprotocol/go-sdk"

// SDKVersion returns the version of SDK in this program; "unknown" if the build does not say.
func SDKVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == SDK {
				return m.Version
			}
		}
	}
	return "unknown"
}
