package files

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
)

// maxTop bounds grepArgs.Top, because a page may hold so many matches of a file before it knows which to show.
const maxTop = 100

// showTop adds a part of the file's n best matches: those that define what the pattern matches, then the others, both in the order of their
// lines.
func (s *scanner) showTop(ctx context.Context, root *os.Root, h *hit, n int, part filePart, file *grepFile) error {
	type sized struct {
		grepMatch
		bytes   int64
		invalid bool
	}
	var definitions, others []sized
	definitionsLeft := min(h.definitions, n)
	othersLeft := n - definitionsLeft
	prose := isProse(h.path)
	err := s.scanFile(ctx, root, h.path, part.context, func(text []byte, l line) bool {
		list, left := &others, &othersLeft
		if !prose && isDefinition(text, l) {
			list, left = &definitions, &definitionsLeft
		}
		if *left > 0 {
			*left--
			var m sized
			m.grepMatch = showMatch(text, l, part.context, &m.bytes, &m.invalid)
			m.Line = s.number(l.start)
			*list = append(*list, m)
		}
		return definitionsLeft > 0 || othersLeft > 0
	})
	best := slices.Concat(definitions, others)
	for _, m := range best[min(part.skip, len(best)):min(part.skip+part.show, len(best))] {
		if *part.bytesLeft <= 0 {
			break
		}
		file.Matches = append(file.Matches, m.grepMatch)
		file.InvalidUTF8 = file.InvalidUTF8 || m.invalid
		*part.bytesLeft += m.bytes // negative: what showMatch took
	}
	return err
}

// hotFolder returns the deepest folder below from that contains at least half of all matching lines; of several with half each the deepest,
// then the first. nil: there is none, or only one file matches.
func hotFolder(hits []hit, from string, all int) *folderCount {
	if len(hits) < 2 {
		return nil
	}
	direct := map[string]int{}
	for i := range hits {
		direct[path.Dir(hits[i].path)] += hits[i].count
	}
	total := map[string]int{}
	for folder, n := range direct {
		for ; folder != from && folder != "."; folder = path.Dir(folder) {
			total[folder] += n
		}
	}
	var hot *folderCount
	for folder, n := range total {
		if 2*n >= all && (hot == nil || compareDepths(folder, hot.Path) < 0) {
			hot = &folderCount{folder, n}
		}
	}
	return hot
}

// compareDepths orders deeper folders first, then folders by path.
func compareDepths(a, b string) int {
	if depth := strings.Count(b, "/") - strings.Count(a, "/"); depth != 0 {
		return depth
	}
	return strings.Compare(a, b)
}
