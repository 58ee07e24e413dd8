package diskstore

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/parts"
)

// sweepEvery is how often a process that adds results looks at the whole folder.
const sweepEvery = time.Minute

// temporary is the pattern of a file that is being written, suffix the end of every name that this package gives.
const (
	suffix    = ".onecall"
	temporary = "new-*" + suffix
)

// abandoned is the age at which a temporary file belongs to no process any more.
const abandoned = time.Hour

// stored is a live file in the folder.
type stored struct {
	name    string
	part    string // whose it is
	size    int64
	created int64
}

// sweep removes what has expired or is damaged, and results until the rest is well within the bound: of the owner that has
// most the oldest, but never the one named latest. The caller holds the lock.
func (s *Store) sweep(latest string) error {
	results, err := s.look(latest)
	if err != nil || s.bytes <= s.o.MaxBytes {
		return err
	}
	slices.SortFunc(results, func(a, b stored) int { return cmp.Compare(a.created, b.created) })
	var has parts.Parts
	of := map[string][]stored{} // the oldest first
	var spared int64
	for _, one := range results {
		if one.name == latest {
			spared = one.size
		} else {
			of[one.part] = append(of[one.part], one)
		}
		has.Add(one.part, one.size)
	}
	for s.bytes > s.o.MaxBytes/10*9 { // so that the next result does not sweep again
		owner, some := has.Largest()
		if !some {
			break
		}
		if len(of[owner]) == 0 { // the latest alone is left of its owner's
			has.Add(owner, -spared)
			continue
		}
		oldest := of[owner][0]
		of[owner] = of[owner][1:]
		has.Add(owner, -oldest.size)
		if s.remove(oldest.name) == nil {
			s.bytes -= oldest.size
		}
	}
	return nil
}

// look goes through the folder: it removes what has expired, is damaged or was abandoned, but for the file named spare, and
// counts the results that are left. The caller holds the lock.
func (s *Store) look(spare string) (results []stored, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	now := s.o.Now()
	s.bytes, s.swept = 0, now
	for _, file := range files {
		if !ours(file) {
			continue
		}
		switch one, state := s.inspect(file, now); state {
		case dead:
			if file.Name() != spare {
				_ = s.remove(file.Name()) // tried again at the next sweep
			}
		case live:
			results = append(results, one)
			s.bytes += one.size
		}
	}
	return results, nil
}

// ours reports whether a file is named as this package names its own.
func ours(file fs.DirEntry) bool {
	base, ok := strings.CutSuffix(file.Name(), suffix)
	if !ok || !file.Type().IsRegular() {
		return false
	}
	return strings.HasPrefix(base, "new-") || len(base) == 64 && strings.Trim(base, "0123456789abcdef") == ""
}

// state is what becomes of a file in a sweep.
type state int

const (
	alone state = iota // let alone: being written, or not to be read now
	live
	dead
)

// inspect tells what a file holds and what becomes of it.
func (s *Store) inspect(file fs.DirEntry, now time.Time) (stored, state) {
	if strings.HasPrefix(file.Name(), "new-") {
		info, err := file.Info()
		if err == nil && now.Sub(info.ModTime()) > abandoned {
			return stored{}, dead
		}
		return stored{}, alone
	}
	f, err := os.Open(s.path(file.Name()))
	if err != nil {
		return stored{}, alone
	}
	defer f.Close()
	h, owner, err := readHeader(f, file.Name())
	switch {
	case errors.Is(err, errDamaged) || err == nil && now.UnixNano() >= h.Expires:
		return stored{}, dead
	case err != nil:
		return stored{}, alone
	}
	return stored{file.Name(), budget.Entry{Owner: owner}.Part(), headerSize + int64(h.Owner) + h.Stored, h.Created}, live
}
