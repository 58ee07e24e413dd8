package callcache

import (
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/steps"
)

// relatedResources tells whether the last word of one occurs in the other.
func relatedResources(a, b []string) bool {
	return slices.Contains(b, a[len(a)-1]) || slices.Contains(a, b[len(b)-1])
}

// foldWord gives the form of a resource's word in which its singular and plural are equal: policies as policy, addresses
// as address. Other words may become equal, too, and are then invalidated together.
func foldWord(word string) string {
	folded := steps.FoldName(word)
	if stem := strings.TrimRight(folded, "iesy"); stem != "" {
		return stem
	}
	return folded
}

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// fileWords are the words of the names of functions that work on the files they are given the paths of, and on nothing
// else. Not here: words of functions that follow what is in files (run, import, diagnostics, references), and those that
// are given names by which something else is found (id, project).
var fileWords = wordSet(`
	read cat head tail get view show list ls find search grep glob stat tree walk
	write edit append create make mkdir delete remove rm rmdir touch put save replace patch truncate insert update
	file files text media image binary directory directories dir dirs folder folders path paths
	content contents line lines block info metadata size sizes multiple many with`)

// speaksOfFiles tells whether a tool's name (readFile, list_directory_with_sizes) is made of such words alone.
func speaksOfFiles(name string) bool {
	var spaced strings.Builder
	var before rune
	for _, c := range name {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			c = ' '
		case unicode.IsUpper(c) && unicode.IsLower(before):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(c))
		before = c
	}
	words := strings.Fields(spaced.String())
	return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return !fileWords[word] })
}

// Arguments are compared by their names in lower case without separators.
var (
	// pathArguments hold a path, or an array of paths.
	pathArguments = wordSet(`path paths file files filepath filepaths filename filenames pathname
		dir dirs directory directories dirpath directorypath folder folders folderpath`)

	// otherArguments say nothing of where, whatever their value; numberArguments, if it is a number.
	otherArguments = wordSet(`content contents text data encoding edits oldtext newtext oldstring newstring oldstr newstr
		mode format type types sort sortby order query regex exclude excludepatterns searchtype`)
	numberArguments = wordSet(`head tail offset limit length count size depth maxdepth context mode
		from to line lines start end startline endline maxresults expectedreplacements timeoutms`)
	// patternArguments say nothing of where as long as they do not lead out of the path beside them.
	patternArguments = wordSet(`pattern patterns glob`)
)
