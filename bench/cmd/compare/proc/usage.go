package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
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

// ErrNoProc is the error on a system without /proc.
var ErrNoProc = errors.New("this system does not tell what a process uses")

// Usage returns what the group uses. It is an error if none of its processes is alive.
func (p *Process) Usage() (Usage, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return Usage{}, ErrNoProc
	}
	return sum(members(p.PID()))
}

// Self returns what this process uses, without its children.
func Self() (Usage, error) {
	s, ok := readStat(strconv.Itoa(os.Getpid()))
	if !ok {
		return Usage{}, ErrNoProc
	}
	s.children = 0
	return sum([]stat{s})
}

// sum returns what processes use together. It is an error if there are none.
func sum(group []stat) (Usage, error) {
	if len(group) == 0 {
		return Usage{}, errors.New("no process of the group is alive")
	}
	var u Usage
	for _, s := range group {
		u.CPU += s.process + s.children
		u.Resident += kilobytes(s.status, "VmRSS:") << 10
		u.FromFiles += kilobytes(s.status, "RssFile:") << 10
		u.Peak += kilobytes(s.status, "VmHWM:") << 10
		if files, err := os.ReadDir(filepath.Join("/proc", s.pid, "fd")); err == nil {
			u.Files += len(files)
		}
	}
	u.Processes = len(group)
	return u, nil
}

// stat holds what /proc says about a process.
type stat struct {
	pid               string
	group             int
	process, children time.Duration // processor time
	status            string        // the text of /proc/PID/status
}

// members returns the living processes of a group; none without /proc.
func members(group int) []stat {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []stat
	for _, f := range folders {
		if name := f.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		if s, ok := readStat(f.Name()); ok && s.group == group {
			all = append(all, s)
		}
	}
	return all
}

// names returns the names of processes, each once.
func names(list []stat) string {
	var all []string
	for _, s := range list {
		_, after, _ := strings.Cut(s.status, "Name:")
		name, _, _ := strings.Cut(after, "\n")
		all = append(all, strings.TrimSpace(name))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// tick is the unit of times in /proc. It is the same on all platforms of Go.
const tick = 10 * time.Millisecond

// readStat reads what a process uses. It returns false if the process has ended, even if its parent has not waited for it yet.
func readStat(pid string) (stat, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, false
	}
	s, state, err := parseStat(pid, string(text))
	if err != nil || state == "Z" || state == "X" {
		return stat{}, false
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	s.status = string(status)
	return s, err == nil
}

// parseStat reads a line of /proc/PID/stat. The second field is the program's name in parentheses, which may contain anything.
func parseStat(pid, line string) (s stat, state string, err error) {
	at := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[at+1:])
	if at < 0 || len(fields) < 15 {
		return stat{}, "", fmt.Errorf("bad stat of process %s: %.200q", pid, line)
	}
	var n [5]int
	for i, field := range []int{2, 11, 12, 13, 14} { // pgrp, utime, stime, cutime, cstime; fields[0] is the state
		if n[i], err = strconv.Atoi(fields[field]); err != nil {
			return stat{}, "", fmt.Errorf("bad stat of process %s: %w", pid, err)
		}
	}
	return stat{pid: pid, group: n[0], process: time.Duration(n[1]+n[2]) * tick, children: time.Duration(n[3]+n[4]) * tick}, fields[0], nil
}

// kilobytes returns a number of /proc/PID/status; 0 if it is missing.
func kilobytes(status, key string) int64 {
	_, after, _ := strings.Cut(status, key)
	number, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
