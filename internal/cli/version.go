package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Release is the version that this source becomes, or is: CHANGELOG.md and the tag have the same.
const Release = "0.1.0"

func newVersionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.writeText([]byte(versionLine()))
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("onecall %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is that of the tag that the program was built from. A build from anything else is on its way to Release, and says from
// which commit it is if the go command recorded that.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	// Without any tag, the go command makes up a version that begins like this.
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

// shortRevision is how many characters of a commit's name are shown.
const shortRevision = 12
