package proc

import (
	"errors"
	"time"

	"github.com/prometheus/procfs"
)

// Usage says what the processes of a group have used.
type Usage struct {
	CPU       time.Duration // user and system, in steps of 10 ms, including children that were waited for
	Resident  int64         // bytes of memory now; shared memory counts for each process
	FromFiles int64         // the part of Resident that is pages of files, such as the program itself
	Peak      int64         // the sum of the peaks of all processes, in bytes
	Files     int           // open file descriptors
	Processes int
}

// tick is the unit of times in /proc. It is the same on all platforms of Go.
const tick = 10 * time.Millisecond

// Usage returns what the group uses. It is an error if none of its processes is alive, or if the system has no /proc.
func (p *Process) Usage() (Usage, error) { return sum(members(p.pid())) }

// Self returns what this process uses, without its children.
func Self() (Usage, error) {
	self, err := procfs.Self()
	if err != nil {
		return Usage{}, err
	}
	s, err := self.Stat()
	if err != nil {
		return Usage{}, err
	}
	s.CUTime, s.CSTime = 0, 0
	return sum([]procfs.ProcStat{s})
}

// members returns the living processes of a group; none without /proc.
func members(group int) (all []procfs.ProcStat) {
	list, _ := procfs.AllProcs() // an error is that of a system without /proc
	for _, p := range list {
		if s, err := p.Stat(); err == nil && s.PGRP == group && s.State != "Z" && s.State != "X" {
			all = append(all, s)
		}
	}
	return all
}

// sum returns what processes use together. A process that has ended meanwhile counts with its processor time alone.
func sum(group []procfs.ProcStat) (u Usage, err error) {
	if len(group) == 0 {
		return u, errors.New("no process of the group is known to be alive")
	}
	for _, s := range group {
		u.CPU += time.Duration(int(s.UTime)+int(s.STime)+s.CUTime+s.CSTime) * tick
		p, err := procfs.NewProc(s.PID)
		if err != nil {
			continue
		}
		if status, err := p.NewStatus(); err == nil {
			u.Resident += int64(status.VmRSS)
			u.FromFiles += int64(status.RssFile)
			u.Peak += int64(status.VmHWM)
		}
		if files, err := p.FileDescriptorsLen(); err == nil {
			u.Files += files
		}
	}
	u.Processes = len(group)
	return u, nil
}
