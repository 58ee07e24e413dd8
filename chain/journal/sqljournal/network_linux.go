package sqljournal

import "syscall"

// networkTypes are the types of file systems that other machines share, from linux/magic.h and their own headers.
var networkTypes = map[uint32]bool{
	0x6969:     true, // NFS
	0x517b:     true, // SMB
	0xff534d42: true, // CIFS
	0xfe534d42: true, // SMB2
	0x564c:     true, // NCP
	0x5346414f: true, // AFS
	0x6b414653: true, // AFS of the kernel
	0x73757245: true, // Coda
	0x00c36400: true, // Ceph
	0x7461636f: true, // OCFS2
	0x01161970: true, // GFS2
	0x0bd00bd0: true, // Lustre
}

// onNetwork reports whether a folder is on a network file system, as far as the system says so.
func onNetwork(folder string) bool {
	var info syscall.Statfs_t
	return syscall.Statfs(folder, &info) == nil && networkTypes[uint32(info.Type)]
}
