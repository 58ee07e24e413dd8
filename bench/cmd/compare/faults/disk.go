package faults

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver of the files that are locked

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// disk is a small file system of its own, which can be full.
type disk struct {
	folder string
	mu     sync.Mutex
	timer  *time.Timer // makes room again
}

// fullFor is how long a disk is full at most: a system that only waits for room gets it.
const fullFor = 2 * deadline

// newDisk mounts a file system in memory at a folder; nil: this user may not.
func newDisk(folder string) *disk {
	harness.Check(os.MkdirAll(folder, 0o700))
	if err := mount(folder, 64<<20); err != nil {
		return nil
	}
	return &disk{folder: folder}
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

// fill writes until there is no room.
func (d *disk) fill() {
	d.mu.Lock()
	d.timer = time.AfterFunc(fullFor, func() { _ = os.Remove(d.filler()) })
	d.mu.Unlock()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return // it is full already
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 4
		} else if err != nil {
			return
		}
	}
}

// free makes room again.
func (d *disk) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	_ = os.Remove(d.filler())
}

func (d *disk) close() { _ = unmount(d.folder) }

// lockDatabase keeps others from writing into an SQLite file for a while.
func lockDatabase(path string, d time.Duration) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return
	}
	defer db.Close()
	c, err := db.Conn(context.Background())
	if err != nil {
		return
	}
	defer c.Close()
	for range 100 {
		if _, err = c.ExecContext(context.Background(), "BEGIN EXCLUSIVE"); err == nil {
			time.Sleep(d)
			_, _ = c.ExecContext(context.Background(), "ROLLBACK")
			return
		}
		time.Sleep(time.Millisecond)
	}
}
