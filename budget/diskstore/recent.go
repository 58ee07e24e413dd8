package diskstore

import (
	"context"
	"os"

	"github.com/onecall-mcp/onecall/budget/internal/recent"
)

// fileVersion identifies the file that a value was decoded from. A reader opens the file first, so it knows that the file still exists,
// complete and not expired.
type fileVersion struct {
	file   os.FileInfo
	header header // the header without its expiry, which changes in place
}

func newFileVersion(file os.FileInfo, h header) fileVersion {
	h.Expires = 0
	return fileVersion{file, h}
}

func (d fileVersion) equal(other fileVersion) bool {
	return d.header == other.header && os.SameFile(d.file, other.file)
}

// value returns the value of an open file, from memory or decoded now.
func (s *Store) value(ctx context.Context, f *os.File, key string, h header) ([]byte, error) {
	if h.Size < recent.MinSize {
		return s.codec.Read(ctx, f, h.Size, h.Stored)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return s.recent.Get(ctx, fileName(key), newFileVersion(info, h), h.Size, func(ctx context.Context) ([]byte, error) {
		// Concurrent readers share this read, and the one that owns f may leave and close f before the others: open the file again.
		again, now, _, err := s.open(key, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		defer again.Close()
		if same, err := again.Stat(); err != nil || !newFileVersion(same, now).equal(newFileVersion(info, h)) {
			return nil, errReplaced
		}
		return s.codec.Read(ctx, again, h.Size, h.Stored)
	})
}
