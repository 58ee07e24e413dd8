package report

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/procfs"
)

// ThisMachine describes the machine and how busy it is.
func ThisMachine() Machine {
	m := Machine{CPU: cpuName(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Load: -1}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if load, err := proc.LoadAvg(); err == nil {
			m.Load = load.Load1
		}
	}
	return m
}

// cpuName returns the model of the first processor, from /proc/cpuinfo; "unknown" without it. The library reads that file on Linux alone.
func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
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
