//go:build unix

package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps/source/files"
)

// realTree is a tree of this repository that has code, tests, documents and data.
const realTree = "../.."

// queries is how many random searches a test compares with the system's own program.
const queries = 100

// TestGrepLikeGrep: for random searches of a real tree, the pages of fs.grep together show the lines that grep prints, each once.
func TestGrepLikeGrep(t *testing.T) {
	t.Parallel()
	s := openAt(t, &files.Options{Root: realTree})
	words, random := wordsOf(t, realTree), rand.New(rand.NewPCG(2026, 11))
	for range queries {
		pattern, flags, found := words[random.IntN(len(words))], []string{"-rnI"}, map[string]any{"hidden": true, "ignored": true}
		switch random.IntN(4) {
		case 0:
			found["ignoreCase"], flags = true, append(flags, "-i")
		case 1:
			found["word"], flags = true, append(flags, "-w")
		case 2:
			pattern = pattern[:1] + ".*" + pattern[len(pattern)-1:]
		case 3:
			found["literal"], flags = true, append(flags, "-F")
		}
		found["pattern"] = pattern
		want := output(t, "grep", append(flags, "--exclude-dir=.git", "-e", pattern, ".")...)
		found["limit"] = len(want)/(1+random.IntN(3)) + 1
		var got []string
		pages(t, s, "fs.grep", found, func(page grepResult) (int, bool) {
			for _, f := range page.Files {
				for _, m := range f.Matches {
					got = append(got, f.Path+":"+strconv.Itoa(m.Line))
				}
			}
			return page.Next, page.Truncated
		})
		for i, line := range want {
			path, rest, _ := strings.Cut(strings.TrimPrefix(line, "./"), ":")
			number, _, _ := strings.Cut(rest, ":")
			want[i] = path + ":" + number
		}
		compare(t, fmt.Sprint(found), got, want)
	}
}

// TestFindLikeFind: for random names in a real tree, the pages of fs.find together are the paths that find prints, each once.
func TestFindLikeFind(t *testing.T) {
	t.Parallel()
	s := openAt(t, &files.Options{Root: realTree})
	random := rand.New(rand.NewPCG(2026, 12))
	names := output(t, "find", ".", "-name", ".git", "-prune", "-o", "-type", "f", "-print")
	for range queries {
		name := filepath.Base(names[random.IntN(len(names))])
		switch cut := 1 + random.IntN(len(name)); random.IntN(3) {
		case 0:
			name = name[:cut] + "*"
		case 1:
			name = "*" + name[len(name)-cut:]
		case 2:
			name = "*" + filepath.Ext(name)
		}
		kind := [][2]string{{"file", "f"}, {"dir", "d"}}[random.IntN(2)]
		found := map[string]any{"pattern": name, "type": kind[0], "hidden": true, "ignored": true}
		want := output(t, "find", ".", "-mindepth", "1", "-name", ".git", "-prune", "-o", "-type", kind[1], "-name", name, "-print")
		found["limit"] = len(want)/(1+random.IntN(3)) + 1
		var got []string
		pages(t, s, "fs.find", found, func(page findResult) (int, bool) {
			got = append(got, page.Files...)
			return page.Next, page.Truncated
		})
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], "./")
		}
		compare(t, fmt.Sprint(found), got, want)
	}
}

// pages calls a function for all of its pages. add takes a page, and returns its next offset and whether more follow.
func pages[R any](t *testing.T, s *files.Source, fn string, arguments map[string]any, add func(R) (next int, more bool)) {
	t.Helper()
	arguments = maps.Clone(arguments)
	for offset, more := 0, true; more; {
		arguments["offset"] = offset
		var pairs []any
		for name, value := range arguments {
			pairs = append(pairs, name, value)
		}
		var next int
		if next, more = add(do[R](t, s, fn, args(t, pairs...))); more && next <= offset {
			t.Fatalf("%s %v: after offset %d comes %d", fn, arguments, offset, next)
		}
		offset = next
	}
}

// compare reports a difference of two lists that may be in any order.
func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d, want %d; only here %q, only there %q", what, len(got), len(want), without(got, want), without(want, got))
	}
}

func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { _, found := slices.BinarySearch(others, s); return found })
}

// output returns the lines that a program prints in the tree. Programs that find nothing exit with status 1.
func output(t *testing.T, program string, arguments ...string) []string {
	t.Helper()
	cmd := exec.Command(program, arguments...)
	cmd.Dir, cmd.Env = realTree, append(os.Environ(), "LC_ALL=C")
	var exit *exec.ExitError
	out, err := cmd.Output()
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// wordsOf returns the words of the Go files of a tree's first folder.
func wordsOf(t *testing.T, tree string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(tree, "*.go"))
	must(t, err)
	all := map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		for _, word := range regexp.MustCompile(`[A-Za-z]{3,}`).FindAll(bytes.ToLower(text), -1) {
			all[string(word)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
