package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func BenchmarkIndex(b *testing.B) {
	for _, count := range []int{1_000, 10_000} {
		r := manyFunctions(b, count)
		New(r) // computes what the registry computes at its first use
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if x := New(r); len(x.entries) != count {
					b.Fatalf("%d entries, want %d", len(x.entries), count)
				}
			}
		})
	}
	b.Run("10000 cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			r := manyFunctions(b, 10_000)
			b.StartTimer()
			New(r)
		}
	})
	b.Run("github", func(b *testing.B) {
		r := github(b)
		b.ReportAllocs()
		for b.Loop() {
			New(r)
		}
	})
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{ // the words of the text as prose, and as an identifier
		"listPullRequests":        {"listpullrequests", "list pull requests"},
		"repos.pulls/list_all-by": {"repos pulls list all by", "repos pulls list all by"},
		"HTTPServer getURLs":      {"httpserver geturls", "http server get urls"},
		"getOAuthToken on GitHub": {"getoauthtoken on github", "get oauth token on git hub"},
		"projectsV2 sha256Sum":    {"projectsv2 sha256sum", "projects v2 sha256 sum"},
		"s3bucket k8s i18n 28day": {"s3bucket k8s i18n 28day", "s3 bucket k8s i18n 28 day"},
		"IDToken userID myIDs":    {"idtoken userid myids", "id token user id my ids"},
		"Ünïcode straßeNr":        {"ünïcode straßenr", "ünïcode straße nr"},
		"列出文件 list":               {"列 出 文 件 list", "列 出 文 件 list"},
		"a\xff\xfeb":              {"a b", "a b"},
		" .,;!? ":                 {"", ""},
	} {
		for i, identifier := range []bool{false, true} {
			var words []string
			split(text, identifier, func(word string) bool { words = append(words, word); return true })
			if got := strings.Join(words, " "); got != want[i] {
				t.Errorf("%q, identifier %v: %q, want %q", text, identifier, got, want[i])
			}
		}
	}
	split("one two three", false, func(word string) bool {
		if word == "three" {
			t.Error("split calls its callback after it returned false")
		}
		return word != "two"
	})
}

// TestBounds: the part of a query beyond the bounds costs nothing and is ignored.
func TestBounds(t *testing.T) {
	t.Parallel()
	x := New(registry(t, shop...))
	long := "cancel order " + strings.Repeat("ä", 1<<20)
	if got := names(x.Find(long, nil, 1)); !slices.Equal(got, []string{"shop.order.cancel"}) {
		t.Errorf("a long query finds %v, want the function named at its beginning", got)
	}
	if got := names(x.Find(strings.Repeat("a", 1<<20)+" cancel order", nil, 1)); len(got) != 0 {
		t.Errorf("words behind a megabyte of text find %v, want none", got)
	}
	f := newSearchRun(x, nil)
	if words := f.wordsOf(strings.Repeat("a b2 c d e f1 g h i j k l m n o p q r s t u v w x y z ",
		1) + "aa bb cc dd ee ff gg hh ii jj kk"); len(words) > maxWords {
		t.Errorf("%d words are used, want at most %d", len(words), maxWords)
	}
	if words := f.wordsOf(strings.Repeat("é", maxQuery)); len(words) > 1 || len(words) == 1 && !utf8.ValidString(words[0]) {
		t.Errorf("a query that is truncated inside a character gives the words %q", words)
	}
	huge := function("a.b", strings.Repeat("word ", 1<<20)+"behind")
	if got := New(registry(t, huge)).Find("behind", nil, 0); len(got) != 0 {
		t.Error("a word beyond the bound of a description is found")
	}
}
