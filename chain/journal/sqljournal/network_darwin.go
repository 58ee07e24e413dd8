package sqljournal

import "syscall"

// onNetwork reports whether a folder is on a network file system, as far as the system says so.
func onNetwork(folder string) bool {
	var info syscall.Statfs_t
	return syscall.Statfs(folder, &info) == nil && info.Flags&mountedLocally == 0
}

// mountedLocally is MNT_LOCAL of sys/mount.h.
const mountedLocally = 0x1000
