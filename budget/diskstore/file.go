package diskstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
)

// A file is a header, the owner, and the value as one zstd frame. The header is written last, so that an unfinished file has none. Later
// only its first field changes, in place.
const (
	magic      = "onecall1"
	headerSize = 8 + 8 + 8 + 8 + 8 + 4 + 4 // bytes of the fields of header
	maxOwner   = 256                       // bytes
	maxStored  = 1 << 50                   // bytes
)

// header is the beginning of a file, little-endian.
type header struct {
	Expires int64 // Unix nanoseconds
	Magic   [8]byte
	Created int64  // Unix nanoseconds
	Size    int64  // bytes of the value
	Stored  int64  // bytes of the zstd frame
	Owner   uint32 // bytes of the owner
	Sum     uint32 // the checksum of the immutable fields, the owner and the file's name
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

// seal sets the magic and the checksum.
func (h *header) seal(name, owner string) {
	copy(h.Magic[:], magic)
	h.Sum = h.checksum(name, owner)
}

func (h header) checksum(name, owner string) uint32 {
	h.Expires, h.Sum = 0, 0
	b, _ := binary.Append(nil, binary.LittleEndian, h)
	return crc32.Checksum(append(append(b, owner...), name...), checksums)
}

// readHeader reads the header and the owner of a file with this name, up to the beginning of the frame. It returns ErrDamaged for a file
// that is damaged, truncated or not a result.
func readHeader(f *os.File, name string) (h header, owner string, err error) {
	var fixed [headerSize]byte
	if _, err := io.ReadFull(f, fixed[:]); err != nil {
		return h, "", damagedIfShort(err)
	}
	if _, err := binary.Decode(fixed[:], binary.LittleEndian, &h); err != nil {
		return h, "", compressed.ErrDamaged
	}
	if string(h.Magic[:]) != magic || h.Owner > maxOwner || h.Size < 0 || h.Stored < 0 || h.Stored > maxStored {
		return h, "", compressed.ErrDamaged
	}
	rest := make([]byte, h.Owner)
	if _, err := io.ReadFull(f, rest); err != nil {
		return h, "", damagedIfShort(err)
	}
	owner = string(rest)
	info, err := f.Stat()
	if err != nil {
		return h, "", err
	}
	if h.checksum(name, owner) != h.Sum || info.Size() != headerSize+int64(h.Owner)+h.Stored {
		return h, "", compressed.ErrDamaged
	}
	return h, owner, nil
}

func damagedIfShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return compressed.ErrDamaged
	}
	return err
}

// entry returns the entry described by a header, without its value.
func (h header) entry(owner string) budget.Entry {
	return budget.Entry{Owner: owner, Created: time.Unix(0, h.Created), Expires: time.Unix(0, h.Expires)}
}
