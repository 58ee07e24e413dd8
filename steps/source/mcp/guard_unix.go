//go:build unix

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guardScript reads +GROUP and -GROUP lines. When onecall dies, however it dies, its end of the pipe is closed, and the
// groups that are still there are ended.
const guardScript = `trap '' INT TERM HUP QUIT
groups=
while read -r line; do
  case $line in
  +*) groups="$groups ${line#+}" ;;
  -*) rest=
      for g in $groups; do [ "$g" = "${line#-}" ] || rest="$rest $g"; done
      groups=$rest ;;
  esac
done
[ -n "$groups" ] || exit 0
for g in $groups; do kill -s TERM -- "-$g" 2>/dev/null; done
sleep 1
for g in $groups; do kill -s KILL -- "-$g" 2>/dev/null; done`

// guard is one process that outlives onecall by a second and ends the children that onecall could not. It is there while
// there are children.
type guard struct {
	mu     sync.Mutex
	users  int // children, those that are being started included
	groups map[int]bool
	pipe   *os.File // nil: no guard
}

// theGuard is one for all sources: children belong to the process, not to a source.
var theGuard = &guard{groups: map[int]bool{}}

// open takes the guard for one more child, and tells whether there is one; without a shell there is none.
func (g *guard) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
	if g.pipe == nil {
		g.start()
	}
	return g.pipe != nil
}

// start starts the guard process. The caller holds mu.
func (g *guard) start() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.Stdin = r
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to onecall's group is not one to the guard
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return
	}
	g.pipe = w
	go func() { _ = cmd.Wait() }() // it ends when the pipe is closed
	for id := range g.groups {
		g.tell('+', id)
	}
}

// tell writes one line to the guard. The caller holds mu.
func (g *guard) tell(sign byte, id int) bool {
	if g.pipe == nil {
		return false
	}
	if _, err := fmt.Fprintf(g.pipe, "%c%d\n", sign, id); err != nil {
		_ = g.pipe.Close()
		g.pipe = nil
		return false
	}
	return true
}

// watch gives a group into the guard's care.
func (g *guard) watch(id int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[id] = true
	if !g.tell('+', id) {
		g.start() // somebody has ended it: a new one takes over all groups
	}
}

// release tells that a group is gone.
func (g *guard) release(id int) {
	g.mu.Lock()
	delete(g.groups, id)
	g.tell('-', id)
	g.mu.Unlock()
	g.drop()
}

// drop gives the guard back; the last child's end is its own.
func (g *guard) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 && g.pipe != nil {
		_ = g.pipe.Close()
		g.pipe = nil
	}
}
