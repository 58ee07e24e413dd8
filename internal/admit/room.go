package admit

import (
	"context"
	"io"
)

// Room is memory of work that counts for the request of a context, until it is released. It is for one goroutine.
type Room struct {
	ctx  context.Context
	held int
}

// NewRoom returns a room of nothing.
func NewRoom(ctx context.Context) *Room { return &Room{ctx: ctx} }

// Cover counts n bytes in place of those that the room has counted. After an error, which is coded, it counts what it did before.
func (r *Room) Cover(n int) error {
	err := Hold(r.ctx, n-r.held)
	if err == nil {
		r.held = n
	}
	return err
}

// Release counts nothing any more.
func (r *Room) Release() { _ = r.Cover(0) } // releasing never fails

// The buffer of ReadAll begins with firstRead bytes, doubles up to doublings, and then grows by a quarter.
const firstRead, doublings = 512, 1 << 20

// ReadAll reads to the end of from, and counts the buffer before it has it. size is how many bytes there will be; 0 or less: it is not
// known. full says that there is no memory for more, and err that reading failed; data is then incomplete.
func (r *Room) ReadAll(from io.Reader, size int) (data []byte, full, err error) {
	next := firstRead
	if size > 0 {
		next = size + firstRead // with the end in sight, nothing is copied
	}
	for {
		if len(data) == cap(data) {
			if full = r.Cover(cap(data) + next); full != nil {
				return data, full, nil
			}
			data = append(make([]byte, 0, next), data...)
			_ = r.Cover(next) // the smaller one is gone
			if next += next; next > doublings {
				next = next/2 + next/8
			}
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF:
			return data, nil, nil
		case err != nil:
			return data, nil, err
		}
	}
}
