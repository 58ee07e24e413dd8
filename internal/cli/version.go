package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Release is the version of this source, or until its release the next version. CHANGELOG.md and the tag have the same.
const Release = "0.1.0"

func newVersionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.writeText([]byte(versionLine()))
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("onecall %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version of the tag that the program was built from. Any other build has the version Release-dev, with the
// commit if the go command recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	// Without a tag, the go command makes up a version with this prefix.
	built := info.Main.Version
	if built != "" && built != "(devel)" && !strings.HasPrefix(built, "v0.0.0-") {
		return strings.TrimPrefix(built, "v")
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= shortRevision {
			return Release + "-dev+" + setting.Value[:shortRevision]
		}
	}
	return Release + "-dev"
}

// shortRevision is the number of characters of a commit's hash that are shown.
const shortRevision = 12
