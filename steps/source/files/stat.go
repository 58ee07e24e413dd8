package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

type statArgs struct {
	Path   string
	Digest bool
}

type statResult struct {
	Path     string `json:"path"`
	Type     string `json:"type"` // of what a link leads to; "link": it leads to nothing that can be read
	Size     *int64 `json:"size,omitempty"`
	Modified string `json:"modified"`
	Link     string `json:"link,omitempty"` // where a link leads, as it says
	Digest   string `json:"digest,omitempty"`
}

func (s *Source) stat(ctx context.Context, a statArgs) (*statResult, error) {
	rel, err := s.cleanPath(a.Path)
	if err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(rel)
	if err != nil {
		return nil, s.accessFault(rel, err)
	}
	result := &statResult{Path: rel}
	if info.Mode()&fs.ModeSymlink != 0 {
		if result.Link, err = s.root.Readlink(rel); err != nil {
			return nil, s.accessFault(rel, err)
		}
		if target, err := s.root.Stat(rel); err == nil {
			info = target
		}
	}
	result.Type, result.Modified = kind(info.Mode()), info.ModTime().UTC().Format(time.RFC3339Nano)
	if info.Mode().IsRegular() {
		size := info.Size()
		result.Size = &size
	}
	if a.Digest {
		result.Digest, err = s.digestOf(ctx, rel)
	}
	return result, err
}

// digestOf reads a file of any size, and returns its digest.
func (s *Source) digestOf(ctx context.Context, rel string) (string, error) {
	f, _, err := openRegular(s.root, rel)
	if errors.Is(err, errNotRegular) {
		return "", atPath(fault.New(fault.FunctionFailed, "%q is not a file: only files have a digest", fault.Short(rel)))
	}
	if err != nil {
		return "", s.accessFault(rel, err)
	}
	defer f.Close()
	digest := sha256.New()
	switch _, err = io.Copy(digest, &cancellable{ctx, f}); {
	case ctx.Err() != nil:
		return "", contextFault(ctx.Err())
	case err != nil:
		return "", s.accessFault(rel, err)
	}
	return digestText(digest), nil
}

// digestText is a digest as results have it: enough to tell versions of a file apart, and half as many tokens as the whole.
func digestText(digest hash.Hash) string { return hex.EncodeToString(digest.Sum(nil)[:sha256.Size/2]) }

// cancellable is a reader that fails when its context is done.
type cancellable struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r *cancellable) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
