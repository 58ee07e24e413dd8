package commands

import (
	"fmt"
	"os"
)

// workingPath returns a path of an open folder that leads to this very folder, whatever becomes of the links on the way to it. A process
// that is being started still has the open files of its parent.
func workingPath(folder *os.File, _ string) string {
	return fmt.Sprintf("/proc/self/fd/%d", folder.Fd())
}
