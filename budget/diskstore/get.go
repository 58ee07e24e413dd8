package diskstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/onecall-mcp/onecall/budget"
)

// Get implements budget.Driver.
func (s *Store) Get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	if err := s.checkUsable(ctx); err != nil {
		return budget.Entry{}, err
	}
	e, err := s.get(ctx, key, admit)
	for n := 0; n < 2 && errors.Is(err, errReplaced); n++ {
		e, err = s.get(ctx, key, admit)
	}
	if errors.Is(err, errReplaced) || errors.Is(err, errDamaged) {
		err = budget.ErrNotFound
	}
	return e, err
}

// errReplaced is the error for a file that was replaced while it was read.
var errReplaced = errors.New("replaced result")

func (s *Store) get(ctx context.Context, key string, admit budget.Admit) (budget.Entry, error) {
	f, h, owner, err := s.open(key, os.O_RDONLY)
	if err != nil {
		return budget.Entry{}, err
	}
	defer f.Close()
	e := h.entry(owner)
	if err := admit.Check(e, h.Size); err != nil {
		return budget.Entry{}, err
	}
	e.Value, err = s.value(ctx, f, key, h)
	return e, err
}

// open opens the file of a live key, positioned at the beginning of the frame. It returns ErrNotFound if the file is absent, damaged or
// expired.
func (s *Store) open(key string, flag int) (*os.File, header, string, error) {
	name := fileName(key)
	f, err := os.OpenFile(s.path(name), flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = budget.ErrNotFound
	}
	if err != nil {
		return nil, header{}, "", err
	}
	h, owner, err := readHeader(f, name)
	if errors.Is(err, errDamaged) || err == nil && s.o.Now().UnixNano() >= h.Expires {
		err = budget.ErrNotFound
	}
	if err != nil {
		_ = f.Close()
		return nil, header{}, "", err
	}
	return f, h, owner, nil
}

// read decodes the value. Memory grows with the decoded data, whatever size the header claims.
func (s *Store) read(ctx context.Context, f *os.File, h header) ([]byte, error) {
	decoder, err := s.decoder(f)
	if err != nil {
		return nil, err
	}
	// Few results compress to less than 1/64 of their size: allocate 64 times the stored size now, and more when it is needed.
	value := make([]byte, 0, min(h.Size, 64*h.Stored+chunk))
	for err == nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(value) == cap(value) && int64(len(value)) < h.Size {
			growth := min(h.Size-int64(len(value)), int64(len(value)))
			value = append(make([]byte, 0, int64(len(value))+growth), value...)
		}
		if int64(len(value)) == h.Size {
			err = atEnd(decoder)
			break
		}
		n := 0
		n, err = decoder.Read(value[len(value):min(len(value)+chunk, cap(value))])
		value = value[:len(value)+n]
	}
	_ = decoder.Reset(nil)
	s.decoders.Put(decoder)
	var failed *fs.PathError
	switch {
	case err == nil:
		return value, nil
	case errors.As(err, &failed): // the file could not be read, which says nothing about its content
		return nil, err
	}
	return nil, errDamaged
}

// atEnd checks that nothing follows, which also verifies the frame's checksum.
func atEnd(r io.Reader) error {
	var extra [1]byte
	n, err := io.ReadFull(r, extra[:])
	switch {
	case n > 0:
		return errDamaged
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
