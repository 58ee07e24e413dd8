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
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
	"github.com/onecall-mcp/onecall/budget/internal/shares"
)

// sweepInterval is how often a process that adds results scans the whole folder.
const sweepInterval = time.Minute

// temporary is the pattern of files being written. All file names end with suffix.
const (
	suffix    = ".onecall"
	temporary = "new-*" + suffix
)

// abandonedAge is the age at which a temporary file no longer belongs to a process.
const abandonedAge = time.Hour

// resultFile is a live file in the folder.
type resultFile struct {
	name    string
	owner   string // the owner without its rights
	size    int64
	created int64
}

// sweep removes expired and damaged results. Above the limit it then removes results of the owner that uses most, the oldest first, until
// the rest is well within the limit. It never removes the file named latest. The caller holds the lock.
func (s *Store) sweep(latest string) error {
	results, err := s.scan(latest)
	if err != nil || s.bytes <= s.o.MaxBytes {
		return err
	}
	slices.SortFunc(results, func(a, b resultFile) int { return cmp.Compare(a.created, b.created) })
	var usage shares.Shares
	byOwner := map[string][]resultFile{} // oldest first
	var latestSize int64
	for _, result := range results {
		if result.name == latest {
			latestSize = result.size
		} else {
			byOwner[result.owner] = append(byOwner[result.owner], result)
		}
		usage.Add(result.owner, result.size)
	}
	for s.bytes > s.o.MaxBytes/10*9 { // so that the next result does not sweep again
		owner, ok := usage.Largest()
		if !ok {
			break
		}
		if len(byOwner[owner]) == 0 { // this owner has no other result than the latest
			usage.Add(owner, -latestSize)
			continue
		}
		oldest := byOwner[owner][0]
		byOwner[owner] = byOwner[owner][1:]
		usage.Add(owner, -oldest.size)
		if s.remove(oldest.name) == nil {
			s.bytes -= oldest.size
		}
	}
	return nil
}

// scan reads the folder. It removes what is expired, damaged or abandoned, except the file named exempt, and counts the remaining
// results. The caller holds the lock.
func (s *Store) scan(exempt string) (results []resultFile, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	now := s.o.Now()
	s.bytes, s.swept = 0, now
	for _, file := range files {
		if !isResultFile(file) {
			continue
		}
		switch result, state := s.inspect(file, now); state {
		case dead:
			if file.Name() != exempt {
				_ = s.remove(file.Name()) // the next sweep tries again
			}
		case live:
			results = append(results, result)
			s.bytes += result.size
		}
	}
	return results, nil
}

// isResultFile reports whether a file is named like this package's files.
func isResultFile(file fs.DirEntry) bool {
	base, ok := strings.CutSuffix(file.Name(), suffix)
	if !ok || !file.Type().IsRegular() {
		return false
	}
	return strings.HasPrefix(base, "new-") || len(base) == 64 && strings.Trim(base, "0123456789abcdef") == ""
}

// state says how a sweep treats a file.
type state int

const (
	skipped state = iota // being written, or not readable now
	live
	dead
)

// inspect returns how to treat a file, and what it is if it is live.
func (s *Store) inspect(file fs.DirEntry, now time.Time) (resultFile, state) {
	if strings.HasPrefix(file.Name(), "new-") {
		info, err := file.Info()
		if err == nil && now.Sub(info.ModTime()) > abandonedAge {
			return resultFile{}, dead
		}
		return resultFile{}, skipped
	}
	f, err := os.Open(s.path(file.Name()))
	if err != nil {
		return resultFile{}, skipped
	}
	defer f.Close()
	h, owner, err := readHeader(f, file.Name())
	switch {
	case errors.Is(err, compressed.ErrDamaged) || err == nil && now.UnixNano() >= h.Expires:
		return resultFile{}, dead
	case err != nil:
		return resultFile{}, skipped
	}
	return resultFile{file.Name(), budget.Entry{Owner: owner}.BaseOwner(), headerSize + int64(h.Owner) + h.Stored, h.Created}, live
}
