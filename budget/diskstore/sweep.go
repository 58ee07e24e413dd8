package diskstore

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
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
	size    int64
	created int64
}

// sweep removes what has expired or is damaged, and the oldest results until the rest is well within the bound, but never
// the one named latest. The caller holds the lock.
func (s *Store) sweep(latest string) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	now := s.o.Now()
	var results []stored
	s.bytes, s.swept = 0, now
	for _, file := range files {
		if !ours(file) {
			continue
		}
		switch one, state := s.inspect(file, now); state {
		case dead:
			_ = s.remove(file.Name()) // tried again at the next sweep
		case live:
			results = append(results, one)
			s.bytes += one.size
		}
	}
	if s.bytes <= s.o.MaxBytes {
		return nil
	}
	slices.SortFunc(results, func(a, b stored) int { return cmp.Compare(a.created, b.created) })
	for _, one := range results {
		if s.bytes <= s.o.MaxBytes/10*9 { // so that the next result does not sweep again
			break
		}
		if one.name != latest && s.remove(one.name) == nil {
			s.bytes -= one.size
		}
	}
	return nil
}

// ours tells whether a file is named as this package names its own.
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
	h, _, err := readHeader(f, file.Name())
	switch {
	case errors.Is(err, errDamaged) || err == nil && now.UnixNano() >= h.Expires:
		return stored{}, dead
	case err != nil:
		return stored{}, alone
	}
	return stored{file.Name(), headerSize + int64(h.Owner) + h.Stored, h.Created}, live
}
