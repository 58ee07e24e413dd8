package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// batch runs many chains side by side and gives their answers in the order of the input. It reads no further ahead than
// a few chains for each job, so that its memory does not grow with the input.
type batch struct {
	files   []chainFile
	stdin   io.Reader
	jobs    int
	maxLine int64 // bytes of a chain; of a longer one maxLine+1 bytes are run, which no engine accepts
	run     func(ctx context.Context, e *entry) *chain.Answer
}

// ahead is how many chains, for each job, may have been read before the answer of the first is taken.
const ahead = 4

// entry is one chain of a batch.
type entry struct {
	file    *chainFile
	line    int    // in the file, from 1; 0: the file is one chain
	read    int64  // bytes of input since the entry before
	written []byte // what the file holds; nil: request
	request []byte
	text    *chainfile.Text // that request was made of; nil: it was in JSON
	faults  []*fault.Error  // of what was written, which gave no request
	answer  *chain.Answer
	ended   chan struct{}
}

// label names the chain: its file, and the line of a file with many.
func (e *entry) label() string {
	if e.line == 0 {
		return e.file.name
	}
	return e.file.name + ":" + strconv.Itoa(e.line)
}

// each hands every chain's entry with its answer to take, in order, never two at once, and calls idle before it waits.
// After the context has ended no chain is begun, and those under way answer that they were cancelled. An error of take,
// of idle or of reading ends the batch.
func (b *batch) each(ctx context.Context, take func(*entry) error, idle func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan struct{})
	defer close(left)
	begun := make(chan *entry, ahead*b.jobs)
	var readErr error
	go func() {
		readErr = b.begin(ctx, begun, left)
		close(begun)
	}()
	for {
		e, more, err := next(ctx, begun, idle)
		if err == nil && !more {
			return readErr
		}
		if err == nil && e != nil {
			err = e.wait(idle)
		}
		if err == nil && e != nil {
			err = take(e)
		}
		if err != nil || e == nil {
			return err
		}
	}
}

// next gives the entry that is next in order; more is false when all have been given. No entry but more: the context has
// ended and nothing further has been begun. The reader is not waited for then: its input may give nothing.
func next(ctx context.Context, begun <-chan *entry, idle func() error) (e *entry, more bool, err error) {
	select {
	case e, more = <-begun:
		return e, more, nil
	default:
	}
	if err := idle(); err != nil {
		return nil, false, err
	}
	select {
	case e, more = <-begun:
		return e, more, nil
	case <-ctx.Done():
	}
	select {
	case e, more = <-begun:
		return e, more, nil
	default:
		return nil, true, nil
	}
}

func (e *entry) wait(idle func() error) error {
	select {
	case <-e.ended:
		return nil
	default:
	}
	if err := idle(); err != nil {
		return err
	}
	<-e.ended
	return nil
}

// begin reads the chains, starts each as soon as a job is free, and passes it on in order. It returns when all have
// ended, or the context has, or when who takes them has left.
func (b *batch) begin(ctx context.Context, begun chan<- *entry, left <-chan struct{}) error {
	work := make(chan *entry)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(work)
	for range b.jobs {
		workers.Go(func() {
			for e := range work {
				e.answer = b.run(ctx, e)
				close(e.ended)
			}
		})
	}
	empty := true
	for i := range b.files {
		file := &b.files[i]
		err := file.each(b.stdin, b.maxLine, func(e *entry) error {
			empty = false
			e.file, e.ended = file, make(chan struct{})
			select {
			case <-ctx.Done():
				return ctx.Err()
			case work <- e:
			}
			select {
			case <-left:
				return context.Canceled
			case begun <- e:
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	if empty {
		return unable("%s holds no chain: write one in each line", b.files[0].name)
	}
	return nil
}

// each gives the chains of a file: one, or one for each line that is not blank.
func (f *chainFile) each(stdin io.Reader, maxLine int64, give func(*entry) error) error {
	if !f.lines {
		e, err := f.readAll(stdin, maxLine)
		if err != nil {
			return err
		}
		return give(e)
	}
	file, err := textfile.Open(f.path)
	if err != nil {
		return unable("%s cannot be read: %v", f.name, textfile.Cause(err))
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	var unseen int64
	for number := 1; ; number++ {
		line, read, err := readLine(in, maxLine)
		if number == 1 {
			line = textfile.WithoutMark(line)
		}
		unseen += read
		if len(bytes.TrimSpace(line)) > 0 {
			if err := give(&entry{line: number, request: line, read: unseen}); err != nil {
				return err
			}
			unseen = 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return app.Failure{Err: err}
		}
	}
}

// readLine reads a line without its line break, of a longer one limit+1 bytes, and tells how many bytes it has read.
func readLine(in *bufio.Reader, limit int64) (line []byte, read int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		read += int64(len(part))
		part = bytes.TrimSuffix(part, []byte{'\n'})
		line = append(line, part[:min(int64(len(part)), limit+1-int64(len(line)))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, read, err
		}
	}
}
