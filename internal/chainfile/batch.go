package chainfile

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
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Batch runs many chains side by side and gives their answers in the order of the input. It reads no further ahead than
// a few chains for each job, so that its memory does not grow with the input. All fields must be given.
type Batch struct {
	Files   []File
	Stdin   io.Reader
	Jobs    int
	MaxLine int64 // bytes of a chain; of a longer one MaxLine+1 bytes are run, which no engine accepts
	Run     func(ctx context.Context, e *Entry) *chain.Answer
}

// ahead is how many chains, for each job, may have been read before the answer of the first is taken.
const ahead = 4

// Entry is one chain of a batch.
type Entry struct {
	File    *File
	Line    int    // in the file, from 1; 0: the file is one chain
	Read    int64  // bytes of input since the entry before
	Written []byte // what the file holds; nil: Request
	Request []byte
	Faults  []*fault.Error // of what was written, which gave no request
	Answer  *chain.Answer  // nil before the chain has ended

	text  *Text // that Request was made of; nil: it was in JSON
	ended chan struct{}
}

// Label names the chain: its file, and the line of a file with many.
func (e *Entry) Label() string {
	if e.Line == 0 {
		return e.File.Name
	}
	return e.File.Name + ":" + strconv.Itoa(e.Line)
}

// Each hands every chain's entry with its answer to take, in order, never two at once, and calls idle before it waits.
// After the context has ended no chain is begun, and those under way answer that they were cancelled. An error of take,
// of idle or of reading ends the batch; a file that cannot be opened, or that holds no chain, is a bad_request.
func (b *Batch) Each(ctx context.Context, take func(*Entry) error, idle func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan struct{})
	defer close(left)
	begun := make(chan *Entry, ahead*b.Jobs)
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

// next returns the next entry in order; more is false after the last. No entry with more means that the context has ended and
// nothing else has begun. next does not wait for the reader then: its input may be silent.
func next(ctx context.Context, begun <-chan *Entry, idle func() error) (e *Entry, more bool, err error) {
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

func (e *Entry) wait(idle func() error) error {
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

// begin reads the chains, starts each as soon as a job is free, and passes it on in order. It returns when all have ended, when
// the context has, or when left is closed.
func (b *Batch) begin(ctx context.Context, begun chan<- *Entry, left <-chan struct{}) error {
	work := make(chan *Entry)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(work)
	for range b.Jobs {
		workers.Go(func() {
			for e := range work {
				e.Answer = b.Run(ctx, e)
				close(e.ended)
			}
		})
	}
	empty := true
	for i := range b.Files {
		file := &b.Files[i]
		err := file.each(b.Stdin, b.MaxLine, func(e *Entry) error {
			empty = false
			e.File, e.ended = file, make(chan struct{})
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
		return fault.New(fault.BadRequest, "%s holds no chain: write one in each line", b.Files[0].Name)
	}
	return nil
}

// each calls give for the chains of a file: one, or one for each line that is not blank.
func (f *File) each(stdin io.Reader, maxLine int64, give func(*Entry) error) error {
	if !f.Lines {
		e, err := f.readAll(stdin, maxLine)
		if err != nil {
			return err
		}
		return give(e)
	}
	file, err := textfile.Open(f.Path)
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be read: %v", f.Name, textfile.Cause(err))
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
			if err := give(&Entry{Line: number, Request: line, Read: unseen}); err != nil {
				return err
			}
			unseen = 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine reads a line without its line break, and of a longer one limit+1 bytes. read is the number of bytes read.
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
