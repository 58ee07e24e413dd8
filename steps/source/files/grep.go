package files

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/onecall-mcp/onecall/fault"
)

// maxContext bounds the lines shown before and after a match, and maxHits the files with matches that each worker of a call may find.
// batchFiles is the highest number of files that a worker receives at once.
const maxContext, maxHits, batchFiles = 100, 1_000_000, 32

type grepArgs struct {
	Pattern                   string
	Path                      string
	Glob                      *string
	ExcludePatterns           []string
	IgnoreCase, Word, Literal bool
	Context, Top              integer
	Hidden, Ignored           bool
	Limit, Offset             integer
}

type grepResult struct {
	Count     int          `json:"count"`     // matching lines
	FileCount int          `json:"fileCount"` // files that contain them
	Hot       *folderCount `json:"hot,omitempty"`
	Files     []grepFile   `json:"files"`
	page
	Skipped []skip `json:"skipped,omitempty"`
}

type grepFile struct {
	Path        string      `json:"path"`
	Count       int         `json:"count"`
	InvalidUTF8 bool        `json:"invalidUTF8,omitempty"`
	Matches     []grepMatch `json:"matches"`
}

type grepMatch struct {
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Cut    bool     `json:"cut,omitempty"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// grep reads files twice. First it reads the whole tree to count and rank, and stores only a hit for each file with matches. Then it
// reads again the files whose matches the page shows. So the page bounds the memory, and the counts cover the whole tree.
func (s *Source) grep(ctx context.Context, a grepArgs) (*grepResult, error) {
	if err := checkPage(a.Limit, a.Offset); err != nil {
		return nil, err
	}
	if a.Context < 0 || a.Context > maxContext {
		return nil, badArgument("context", "context is 0 to %d lines", maxContext)
	}
	if a.Top < 0 || a.Top > maxTop {
		return nil, badArgument("top", "top is 1 to %d matches of each file", maxTop)
	}
	p, err := compilePattern(&a)
	if err != nil {
		return nil, err
	}
	filter, err := newFilter(a.ExcludePatterns, a.Hidden, a.Ignored)
	if err != nil {
		return nil, err
	}
	if a.Glob != nil {
		include, err := argumentRule("glob", *a.Glob)
		if err != nil {
			return nil, err
		}
		if include.dirOnly {
			return nil, badArgument("glob", `glob names files: write "**" after the "/" to name the files in a folder`)
		}
		filter.include = &include
	}
	rel, info, err := s.locate(a.Path)
	if err != nil {
		return nil, err
	}
	skipped := &skipList{}
	hits, err := s.hits(ctx, rel, info, p, filter, skipped)
	if err != nil {
		return nil, err
	}
	result := &grepResult{FileCount: len(hits), Files: []grepFile{}}
	for _, h := range hits {
		result.Count += h.count
	}
	result.Hot = hotFolder(hits, rel, result.Count)
	if err := s.showMatches(ctx, &a, p, hits, result, skipped); err != nil {
		return nil, err
	}
	result.Skipped = skipped.list()
	return result, nil
}

// batch is some files of one folder, which the batch holds open.
type batch struct {
	in    *folder
	names []string
}

// hits returns the files at or below a path that contain matches, ranked.
func (s *Source) hits(ctx context.Context, rel string, info fs.FileInfo, p *pattern, filter *filter, skipped *skipList) ([]hit, error) {
	switch {
	case info.Mode().IsRegular():
		return s.hitsOfFile(ctx, rel, p, skipped)
	case !info.IsDir():
		return nil, notRegularFault(rel)
	}
	workers := runtime.GOMAXPROCS(0)
	batches := make(chan batch, workers)
	byWorker := make([][]hit, workers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return s.sendBatches(ctx, rel, filter, skipped, batches)
	})
	for i := range workers {
		group.Go(func() (err error) {
			byWorker[i], err = s.search(ctx, p, batches, skipped)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	hits := slices.Concat(byWorker...)
	slices.SortFunc(hits, compareHits)
	return hits, nil
}

// sendBatches walks the tree and sends its files to the workers.
func (s *Source) sendBatches(ctx context.Context, rel string, filter *filter, skipped *skipList, batches chan<- batch) error {
	var b batch // holds its folder while it has names
	defer func() {
		if b.names != nil {
			b.in.release()
		}
	}()
	send := func() error {
		if b.names == nil {
			return nil
		}
		select {
		case batches <- b:
			b = batch{}
			return nil
		case <-ctx.Done():
			return contextFault(ctx.Err())
		}
	}
	w := walk{filter: filter, depth: -1, skipped: skipped}
	w.visit = func(in *folder, at string, e fs.DirEntry) error {
		if b.in != in || len(b.names) == batchFiles {
			if err := send(); err != nil {
				return err
			}
		}
		if !e.Type().IsRegular() {
			return nil
		}
		if b.names == nil {
			b.in = in
			in.hold()
		}
		b.names = append(b.names, e.Name())
		return nil
	}
	if err := w.run(ctx, s, rel); err != nil {
		return err
	}
	return send()
}

// search counts the matches of the files in batches. After an error it still receives the batches, to release them.
func (s *Source) search(ctx context.Context, p *pattern, batches <-chan batch, skipped *skipList) (hits []hit, err error) {
	scanner := newScanner(p, s.maxFileBytes)
	for b := range batches {
		for _, name := range b.names {
			if err != nil {
				break
			}
			var h hit
			if h, err = scanner.count(ctx, b.in.root, name, join(b.in.path, name), skipped); h.count > 0 {
				hits = append(hits, h)
			}
			if len(hits) > maxHits {
				err = fault.New(fault.LimitExceeded, "more than %d files match: narrow path or glob", maxHits)
			}
		}
		b.in.release()
	}
	return hits, err
}

func (s *Source) hitsOfFile(ctx context.Context, rel string, p *pattern, skipped *skipList) ([]hit, error) {
	h, err := newScanner(p, s.maxFileBytes).count(ctx, s.root, rel, rel, skipped)
	if err != nil || h.count == 0 {
		return nil, err
	}
	return []hit{h}, nil
}

// count counts the matching lines of one file. A file that cannot be searched is skipped.
func (s *scanner) count(ctx context.Context, root *os.Root, name, at string, skipped *skipList) (hit, error) {
	h := hit{path: at}
	prose := isProse(name)
	err := s.scanFile(ctx, root, name, 0, func(text []byte, l line) bool {
		h.count++
		if !prose && h.definitions < s.definitions && isDefinition(text, l) {
			h.definitions++
		}
		return true
	})
	if errors.Is(err, errBinary) { // matches before the NUL do not count
		h.count = 0
	}
	if h.count > 0 {
		h.test = isTest(at)
	}
	return h, skipOrStop(ctx, err, at, skipped)
}

// scanFile opens a file and scans it.
func (s *scanner) scanFile(ctx context.Context, root *os.Root, name string, contextLines int, visit func([]byte, line) bool) error {
	f, info, err := openRegular(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.scan(ctx, f, info.Size(), contextLines, visit)
}

// skipOrStop records why a file was not searched completely. It returns an error only if the context is done.
func skipOrStop(ctx context.Context, err error, at string, skipped *skipList) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return contextFault(ctx.Err())
	case errors.Is(err, errBinary):
		skipped.add(binary, at)
	case errors.Is(err, errLongLine):
		skipped.add(longLine, at)
	default:
		skipped.add(unreadable, at)
	}
	return nil
}

// showMatches reads the page's matches from the ranked files. Offsets count the matches that the pages show.
func (s *Source) showMatches(ctx context.Context, a *grepArgs, p *pattern, hits []hit, result *grepResult, skipped *skipList) error {
	scanner := newScanner(p, s.maxFileBytes)
	end, from := 0, int(a.Offset) // the number of matches up to the end of the current file; the index of the next match to show
	matchesLeft, bytesLeft := int(a.Limit), s.maxResultBytes
	for _, h := range hits {
		n := h.shown(int(a.Top))
		end += n
		if from >= end || matchesLeft <= 0 || bytesLeft <= 0 {
			continue
		}
		file := grepFile{Path: h.path, Count: h.count, Matches: []grepMatch{}}
		bytesLeft -= int64(len(h.path)) + matchBytes
		part := filePart{skip: n - (end - from), show: min(matchesLeft, end-from), context: int(a.Context), bytesLeft: &bytesLeft}
		var err error
		if n < h.count {
			err = scanner.showTop(ctx, s.root, &h, n, part, &file)
		} else {
			err = scanner.showAll(ctx, s.root, part, &file)
		}
		if ctx.Err() != nil {
			return contextFault(ctx.Err())
		}
		if len(file.Matches) == 0 && err != nil {
			skipped.add(unreadable, h.path) // it was readable when it was counted
		}
		matchesLeft -= len(file.Matches)
		if from += len(file.Matches); bytesLeft > 0 && matchesLeft > 0 {
			from = end // even if the file now has fewer matches than were counted
		}
		result.Files = append(result.Files, file)
	}
	result.page = pageAfter(from, end)
	return nil
}

// filePart says which of a file's matches a page shows: some, after those that earlier pages show. The part ends when bytesLeft is used up.
type filePart struct {
	skip, show, context int
	bytesLeft           *int64
}

// showAll adds a part of all matches, in the order of their lines.
func (s *scanner) showAll(ctx context.Context, root *os.Root, part filePart, file *grepFile) error {
	return s.scanFile(ctx, root, file.Path, part.context, func(text []byte, l line) bool {
		if part.skip > 0 {
			part.skip--
			return true
		}
		m := showMatch(text, l, part.context, part.bytesLeft, &file.InvalidUTF8)
		m.Line = s.number(l.start)
		file.Matches = append(file.Matches, m)
		part.show--
		return part.show > 0 && *part.bytesLeft > 0
	})
}

// matchBytes and lineBytes are the size of a match and of a line without their text: in memory, and approximately in JSON. If they
// were not counted, a page of many short lines could be several times as large as its bound.
const matchBytes, lineBytes = 64, 24

// showMatch returns a matching line with context, but without its number. It subtracts the size from bytesLeft, and sets invalid if a
// shown line is not valid UTF-8.
func showMatch(text []byte, l line, contextLines int, bytesLeft *int64, invalid *bool) grepMatch {
	var m grepMatch
	*bytesLeft -= matchBytes
	show := func(from, end, at int) (string, bool) {
		shown, cut := cutAround(text[from:end], at-from)
		*bytesLeft -= int64(len(shown)) + lineBytes
		*invalid = *invalid || !utf8.ValidString(shown)
		return shown, cut
	}
	m.Text, m.Cut = show(l.start, l.end, l.matchStart)
	for start := linesBefore(text, l.start, contextLines); start < l.start; {
		end := lineEnd(text, start)
		shown, _ := show(start, trimCR(text, start, end), start)
		m.Before = append(m.Before, shown)
		start = end + 1
	}
	for start := l.next; start < len(text) && len(m.After) < contextLines; {
		end := lineEnd(text, start)
		shown, _ := show(start, trimCR(text, start, end), start)
		m.After = append(m.After, shown)
		start = end + 1
	}
	return m
}

// lineEnd returns the position of the line break that ends the line at start; the text's length if there is none.
func lineEnd(text []byte, start int) int {
	if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
		return start + i
	}
	return len(text)
}

func trimCR(text []byte, start, end int) int {
	if end > start && text[end-1] == '\r' {
		end--
	}
	return end
}
