// Package compressed writes and reads values as zstd frames.
package compressed

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// chunk is how many bytes are compressed or decompressed between two checks of the context.
const chunk = 1 << 20

// maxWindow bounds the window of a decoder, and so its memory.
const maxWindow = 8 << 20

// ErrDamaged is the error for a frame that Write did not write, or that does not contain the expected value.
var ErrDamaged = errors.New("damaged result")

// Codec writes and reads frames. The zero value is ready to use, and safe for concurrent use. Every store has its own because encoders and
// decoders hold channels, which testing/synctest bubbles must not share.
type Codec struct{ encoders, decoders sync.Pool }

// Write writes a value as one frame with a checksum.
func (c *Codec) Write(ctx context.Context, w io.Writer, value []byte) error {
	encoder, err := c.encoder(w)
	if err != nil {
		return err
	}
	for rest := value; len(rest) > 0; {
		n := min(len(rest), chunk)
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := encoder.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	encoder.Reset(nil)
	c.encoders.Put(encoder)
	return nil
}

func (c *Codec) encoder(w io.Writer) (*zstd.Encoder, error) {
	if e, ok := c.encoders.Get().(*zstd.Encoder); ok {
		e.Reset(w)
		return e, nil
	}
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(chunk),
		zstd.WithLowerEncoderMem(true))
}

// Read reads a value of size bytes from a frame of stored bytes. Memory grows with the decoded data, whatever size says. An error of from
// is returned as it is; a frame that is damaged, or has another size, is ErrDamaged.
func (c *Codec) Read(ctx context.Context, from io.Reader, size, stored int64) ([]byte, error) {
	if size < 0 || stored < 0 {
		return nil, ErrDamaged
	}
	source := &source{from: from}
	decoder, err := c.decoder(source)
	var value []byte
	if err == nil {
		value, err = decode(ctx, decoder, size, stored)
		_ = decoder.Reset(nil)
		c.decoders.Put(decoder)
	}
	switch {
	case err == nil:
		return value, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case source.err != nil:
		return nil, source.err
	}
	return nil, ErrDamaged
}

func (c *Codec) decoder(r io.Reader) (*zstd.Decoder, error) {
	if d, ok := c.decoders.Get().(*zstd.Decoder); ok {
		return d, d.Reset(r)
	}
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
}

func decode(ctx context.Context, decoder io.Reader, size, stored int64) ([]byte, error) {
	// Few results compress to less than 1/64 of their size: allocate 64 times the stored size now, and more when it is needed.
	value := make([]byte, 0, min(size, 64*stored+chunk))
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if int64(len(value)) == size {
			return value, atEnd(decoder)
		}
		if len(value) == cap(value) {
			growth := min(size-int64(len(value)), int64(len(value)))
			value = append(make([]byte, 0, int64(len(value))+growth), value...)
		}
		n, err := decoder.Read(value[len(value):min(len(value)+chunk, cap(value))])
		if value = value[:len(value)+n]; err != nil {
			return nil, err
		}
	}
}

// atEnd checks that nothing follows, which also verifies the frame's checksum.
func atEnd(r io.Reader) error {
	var extra [1]byte
	n, err := io.ReadFull(r, extra[:])
	switch {
	case n > 0:
		return ErrDamaged
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// source remembers why reading failed, which a decoder may not tell.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
