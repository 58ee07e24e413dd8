package diskstore

import (
	"context"
	"os"

	"github.com/onecall-mcp/onecall/budget/internal/recent"
)

// decoded is what a value was decoded from. Whoever asks for it has opened that very file, and so knows that it is still
// there, whole, and not expired.
type decoded struct {
	file   os.FileInfo
	header header // without the expiry, which changes in place
}

func newDecoded(file os.FileInfo, h header) decoded {
	h.Expires = 0
	return decoded{file, h}
}

func (d decoded) same(other decoded) bool {
	return d.header == other.header && os.SameFile(d.file, other.file)
}

// value gives what an open file holds: as it was decoded lately, or decoded now.
func (s *Store) value(ctx context.Context, f *os.File, key string, h header) ([]byte, error) {
	if h.Size < recent.Least {
		return s.read(ctx, f, h)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return s.recent.Get(ctx, nameOf(key), newDecoded(info, h), h.Size, func(ctx context.Context) ([]byte, error) {
		// f is its reader's alone, who may leave before the others.
		again, now, _, err := s.open(key, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		defer again.Close()
		if same, err := again.Stat(); err != nil || !newDecoded(same, now).same(newDecoded(info, h)) {
			return nil, errReplaced
		}
		return s.read(ctx, again, h)
	})
}
