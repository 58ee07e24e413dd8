package bpe

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// nasty has parts of texts that a hand-written splitter may get wrong: every class of character in several lengths, contractions in every
// spelling, all kinds of white space, invalid UTF-8.
var nasty = []string{
	"a", "b", "s", "t", "é", "ß", "ſ", "ª", "𐐨", " the", " hello", // lower
	"S", "T", "A", "É", "ǅ", "𝒜", "𐐀", "World", "HTTP", // upper and title
	"ʰ", "ー", "か", "漢", "字", "한", "א", "ا", "ไ", "𠀀", // caseless
	"\u0301", "\u0903", "\u20dd", "\u0e31", "\ufe0f", "\U000e0100", // marks
	"1", "22", "333", "4444", "²", "½", "٣", "Ⅻ", "𝟗", // numbers
	" ", "  ", "\t", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", // space
	"\n", "\r", "\r\n", "\n \n", // lines
	"'", "'s", "'S", "'ſ", "'t", "'T", "'re", "'rE", "'ve", "'VE", "'m", "'ll", "'Ll", "'lL", "'d", "'D", "'l", "'r", "’s",
	"/", "//", "!", "(", ")", "{\"", "\":", "\"},", "\\n", "\\u00e9", "==", "<|endoftext|>", "-", "_", "€", "、", "。", "→",
	"😀", "👩\u200d🚀", "🇪🇺", "\u200b", "\u2060", "\ufeff", "\ufffd", "\x00", "\x1c", "\x7f", "\u180e", "\ue000", "\u0378", "\U000e0041",
	"\xff", "\x80", "\xc5", "\xed\xa0\x80", "\xf0\x9f", "\xe6\xbc", "\xc0\xaf", "\xf4\x90\x80\x80",
}

// texts draws texts of nasty parts, and sometimes of arbitrary bytes.
func texts(t *rapid.T, depth int) []byte {
	piece := rapid.OneOf(rapid.SampledFrom(nasty), rapid.SampledFrom(nasty), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
	return []byte(strings.Join(rapid.SliceOfN(piece, 0, depth).Draw(t, "parts"), ""))
}

func split(text []byte) (pieces []string) {
	for c := tables(); len(text) > 0; {
		end := c.next(text)
		pieces = append(pieces, string(text[:end]))
		text = text[end:]
	}
	return pieces
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"Hello world", []string{"Hello", " world"}},
		{"camelCase HTTPServer", []string{"camel", "Case", " HTTPServer"}},
		{"don't DON'T it'ſ o'clock", []string{"don't", " DON'T", " it'ſ", " o", "'clock"}},
		{"we'rest we'r", []string{"we're", "st", " we", "'r"}},
		{"ABかCD", []string{"ABか", "CD"}},
		{"\u0301AB", []string{"\u0301", "AB"}},
		{"\u0301ABc", []string{"\u0301ABc"}},
		{"\u0301's", []string{"\u0301's"}},
		{"!\u0301x", []string{"!\u0301x"}},
		{"!!\u0301x", []string{"!!\u0301", "x"}},
		{" !?\r\n//\n x", []string{" !?\r\n//\n", " x"}},
		{"\t!", []string{"\t", "!"}},
		{"1234567", []string{"123", "456", "7"}},
		{" 12", []string{" ", "12"}},
		{"a  b", []string{"a", " ", " b"}},
		{"a  1", []string{"a", " ", " ", "1"}},
		{"a   ", []string{"a", "   "}},
		{"\n \n", []string{"\n \n"}},
		{"\n \n  x", []string{"\n \n", " ", " x"}},
		{"\u3000漢字", []string{"\u3000漢字"}},
		{`{"id":12}`, []string{`{"`, `id`, `":`, `12`, `}`}},
		{"\xffab\xff\xff", []string{"\xffab", "\xff\xff"}},
		{"<|endoftext|>", []string{"<|", "endoftext", "|>"}},
	} {
		if got := split([]byte(test.text)); !slices.Equal(got, test.want) {
			t.Errorf("%q is split into %q, want %q", test.text, got, test.want)
		}
		if want := theOracle().pieces(t, []byte(test.text)); !slices.Equal(want, test.want) {
			t.Errorf("the expression splits %q into %q, the table wants %q", test.text, want, test.want)
		}
	}
}

func TestNextIsTheExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := texts(t, 24)
		got, want := split(text), theOracle().pieces(t, text)
		if !slices.Equal(got, want) {
			t.Fatalf("%q is split into\n%q, want, as by the expression,\n%q", text, got, want)
		}
	})
}

// The test covers every text of up to four characters, with one character of each kind that the expression distinguishes.
func TestNextOfShortTexts(t *testing.T) {
	t.Parallel()
	kinds := []string{"A", "b", "s", "漢", "\u0301", "1", " ", "\u00a0", "\n", "'", "/", "\xff"}
	var check func(text string, more int)
	check = func(text string, more int) {
		if got, want := split([]byte(text)), theOracle().pieces(t, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q is split into %q, want, as by the expression, %q", text, got, want)
		}
		for _, k := range kinds {
			if more > 0 {
				check(text+k, more-1)
			}
		}
	}
	check("", 4)
}

func TestClassOfEveryCharacter(t *testing.T) {
	t.Parallel()
	c := newClasses()
	var buffer [utf8.UTFMax]byte
	for r := rune(0); r <= utf8.MaxRune; r++ {
		want := other
		switch {
		case r == '\r' || r == '\n':
			want = line
		case unicode.IsSpace(r):
			want = space
		case unicode.IsLower(r) && unicode.IsLetter(r):
			want = lower
		case unicode.IsUpper(r), unicode.IsTitle(r):
			want = upper
		case unicode.IsLetter(r):
			want = caseless
		case unicode.IsMark(r):
			want = mark
		case unicode.IsNumber(r):
			want = number
		}
		n := utf8.EncodeRune(buffer[:], r)
		if r >= 0xD800 && r < 0xE000 {
			continue // not UTF-8
		}
		if got, length := c.at(buffer[:n], 0); got != want || length != n {
			t.Fatalf("%U is of class %#x and length %d, want %#x and %d", r, got, length, want, n)
		}
	}
}
