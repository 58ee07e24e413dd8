package diskstore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
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
	if errors.Is(err, errReplaced) || errors.Is(err, compressed.ErrDamaged) {
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
	if errors.Is(err, compressed.ErrDamaged) || err == nil && s.o.Now().UnixNano() >= h.Expires {
		err = budget.ErrNotFound
	}
	if err != nil {
		_ = f.Close()
		return nil, header{}, "", err
	}
	return f, h, owner, nil
}
