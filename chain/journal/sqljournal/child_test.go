//go:build unix

package sqljournal_test

func child() bool { return false }
