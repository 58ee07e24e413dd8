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

// Batch runs many chains side by side and returns their answers in the order of the input. It reads only a few chains ahead, so that its
// memory does not grow with the input. The method Each needs all fields; Read needs neither Jobs nor Run.
type Batch struct {
	Files   []File
	Stdin   io.Reader
	Jobs    int
	MaxLine int64 // the maximum bytes of a chain; a longer one is cut to MaxLine+1 bytes, which no engine accepts
	Run     func(ctx context.Context, e *Entry) *chain.Answer
}

// readAhead is how many chains, per job, may be read before the answer of the first is handled.
const readAhead = 4

// Entry is one chain of a batch.
type Entry struct {
	File    *File
	Line    int    // the line number in the file, from 1; 0: the file is one chain
	Read    int64  // bytes of input read since the previous entry
	Written []byte // the content of the file; nil: the entry is a line, Request
	Request []byte
	Faults  []*fault.Error // the faults of Written; if there are any, Request is nil
	Answer  *chain.Answer  // nil until the chain has ended

	text  *Text // the text that Request was read from; nil: Request is a line of JSON
	ended chan struct{}
}

// Label returns the name of the file, with the line in a file of many chains.
func (e *Entry) Label() string {
	if e.Line == 0 {
		return e.File.Name
	}
	return e.File.Name + ":" + strconv.Itoa(e.Line)
}

// Each calls handle with every chain and its answer, in order and one at a time. It calls idle before it waits. When the context has ended,
// no further chain starts, and those under way answer that they were cancelled. An error of handle, of idle or of reading ends the batch.
// Each fails with bad_request if a file cannot be opened, or if all files together hold no chain.
func (b *Batch) Each(ctx context.Context, handle func(*Entry) error, idle func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	abandoned := make(chan struct{})
	defer close(abandoned)
	started := make(chan *Entry, readAhead*b.Jobs)
	var readErr error
	go func() {
		readErr = b.startAll(ctx, started, abandoned)
		close(started)
	}()
	for {
		e, more, err := next(ctx, started, idle)
		if err == nil && !more {
			return readErr
		}
		if err == nil && e != nil {
			err = e.wait(idle)
		}
		if err == nil && e != nil {
			err = handle(e)
		}
		if err != nil || e == nil {
			return err
		}
	}
}

// Read calls handle with every chain, in order, and runs none. An error of handle or of reading ends it.
func (b *Batch) Read(handle func(*Entry) error) error {
	empty := true
	for i := range b.Files {
		err := b.Files[i].eachChain(b.Stdin, b.MaxLine, func(e *Entry) error {
			empty, e.File = false, &b.Files[i]
			return handle(e)
		})
		if err != nil {
			return err
		}
	}
	return b.checkNotEmpty(empty)
}

func (b *Batch) checkNotEmpty(empty bool) error {
	if empty {
		return fault.New(fault.BadRequest, "%s holds no chain: write one in each line", b.Files[0].Name)
	}
	return nil
}

// next returns the next entry in order; more is false after the last. If e is nil and more is true, the context has ended and nothing
// else has started; next does not wait for the reader then, since its input may be silent.
func next(ctx context.Context, started <-chan *Entry, idle func() error) (e *Entry, more bool, err error) {
	select {
	case e, more = <-started:
		return e, more, nil
	default:
	}
	if err := idle(); err != nil {
		return nil, false, err
	}
	select {
	case e, more = <-started:
		return e, more, nil
	case <-ctx.Done():
	}
	select {
	case e, more = <-started:
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

// startAll reads the chains, starts each as soon as a job is free, and passes it on in order. It starts no more once the context has ended
// or abandoned is closed, and returns when those that it started have ended.
func (b *Batch) startAll(ctx context.Context, started chan<- *Entry, abandoned <-chan struct{}) error {
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
		err := file.eachChain(b.Stdin, b.MaxLine, func(e *Entry) error {
			empty = false
			e.File, e.ended = file, make(chan struct{})
			select {
			case <-ctx.Done():
				return ctx.Err()
			case work <- e:
			}
			select {
			case <-abandoned:
				return context.Canceled
			case started <- e:
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
	return b.checkNotEmpty(empty)
}

// eachChain calls handle for the chains of a file: one, or one for each line that is not blank.
func (f *File) eachChain(stdin io.Reader, maxLine int64, handle func(*Entry) error) error {
	if !f.Lines {
		e, err := f.readAll(stdin, maxLine)
		if err != nil {
			return err
		}
		return handle(e)
	}
	file, err := textfile.Open(f.Path)
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be read: %v", f.Name, textfile.Cause(err))
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	var unreported int64
	for number := 1; ; number++ {
		line, read, err := readLine(in, maxLine)
		if number == 1 {
			line = textfile.WithoutMark(line)
		}
		unreported += read
		if len(bytes.TrimSpace(line)) > 0 {
			if err := handle(&Entry{Line: number, Request: line, Read: unreported}); err != nil {
				return err
			}
			unreported = 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine reads a line without its line break, cut to limit+1 bytes. read is the number of bytes read. The last line comes with io.EOF.
func readLine(in *bufio.Reader, limit int64) (line []byte, read int64, err error) {
	for {
		chunk, err := in.ReadSlice('\n')
		read += int64(len(chunk))
		chunk = bytes.TrimSuffix(chunk, []byte{'\n'})
		line = append(line, chunk[:min(int64(len(chunk)), limit+1-int64(len(line)))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, read, err
		}
	}
}
