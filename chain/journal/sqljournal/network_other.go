//go:build !linux && !darwin

package sqljournal

import (
	"path/filepath"
	"strings"
)

// onNetwork reports whether a folder is a share of another machine, as far as its path says so.
func onNetwork(folder string) bool { return strings.HasPrefix(filepath.VolumeName(folder), `\\`) }
