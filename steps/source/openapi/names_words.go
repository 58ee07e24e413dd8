package openapi

import (
	"strings"
	"unicode"
)

// These rules for words determine every function's name: changing one renames functions. So they are not in a library, whose next
// version might know another plural.

// snake converts a text to the words of a name: lower case, ASCII letters and digits, joined by "_". A word ends at a change from
// lower to upper case, before the last capital of a run (HTTPServer: http_server), and at every other character.
func snake(text string) string {
	var b strings.Builder
	runes := []rune(text)
	gap := false
	for i, c := range runes {
		if !isPlain(c) {
			gap = true
			continue
		}
		if i > 0 && unicode.IsUpper(c) && isPlain(runes[i-1]) {
			afterLower := !unicode.IsUpper(runes[i-1])
			beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1]) && !isPluralEnd(runes[i+1:])
			gap = gap || afterLower || beforeLower
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// isPluralEnd reports whether a run of capitals ends in a plural s: URLs, IDs.
func isPluralEnd(rest []rune) bool {
	return rest[0] == 's' && (len(rest) == 1 || !unicode.IsLower(rest[1]))
}

func isPlain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// irregular maps irregular plurals, and words that only look like plurals (to themselves).
var irregular = map[string]string{
	"children": "child", "people": "person", "men": "man", "women": "woman", "indices": "index", "vertices": "vertex", "matrices": "matrix",
	"appendices": "appendix", "analyses": "analysis", "bases": "base", "crises": "crisis", "axes": "axis", "criteria": "criterion",
	"statuses": "status", "aliases": "alias", "viruses": "virus", "buses": "bus", "bonuses": "bonus", "campuses": "campus",
	"canvases": "canvas",
	"caches":   "cache", "movies": "movie", "cookies": "cookie", "shoes": "shoe", "quizzes": "quiz", "lenses": "lens", "focuses": "focus",
	"gases": "gas", "apis": "api",

	"news": "news", "sms": "sms", "mms": "mms", "dns": "dns", "aws": "aws", "tls": "tls", "ssl": "ssl", "https": "https", "gps": "gps",
	"rss": "rss",
	"css": "css", "cors": "cors", "kms": "kms", "ios": "ios", "sas": "sas", "saas": "saas", "nfs": "nfs", "iops": "iops", "pos": "pos",
	"os":   "os",
	"lens": "lens", "canvas": "canvas", "alias": "alias", "bias": "bias", "gas": "gas", "atlas": "atlas", "always": "always",
	"kubernetes": "kubernetes",
	"analytics":  "analytics", "statistics": "statistics", "diagnostics": "diagnostics", "logistics": "logistics", "economics": "economics",
	"ads": "ad",
}

// collective words are collections although they look singular.
var collective = map[string]bool{"chassis": true, "series": true, "media": true, "equipment": true, "staff": true}

// singular returns a snake-case name with its last word in the singular, and reports whether that word was a plural or a
// collective.
func singular(name string) (string, bool) {
	if head, tail, ok := strings.Cut(name, "_of_"); ok { // codes_of_conduct
		singularName, plural := singular(head)
		return singularName + "_of_" + tail, plural
	}
	cut := strings.LastIndexByte(name, '_') + 1
	word := name[cut:]
	singularName := singularWord(word)
	return name[:cut] + singularName, singularName != word || collective[word]
}

func singularWord(word string) string {
	if irregularWord, ok := irregular[word]; ok {
		return irregularWord
	}
	if len(word) < 3 || collective[word] {
		return word
	}
	hasSuffix := func(ends ...string) bool {
		for _, end := range ends {
			if strings.HasSuffix(word, end) {
				return true
			}
		}
		return false
	}
	switch {
	case !hasSuffix("s"), hasSuffix("ss", "us", "is", "series"):
		return word
	case hasSuffix("ies"):
		if len(word) <= 4 {
			return word[:len(word)-1]
		}
		return word[:len(word)-3] + "y"
	case hasSuffix("sses", "shes", "ches", "xes", "zzes", "oes"):
		return word[:len(word)-2]
	}
	return word[:len(word)-1]
}

// verbs are the words that name an action at the beginning of a path's last segment or of an operationId.
var verbs = wordSet(`accept acknowledge activate add apply approve archive assign attach authorize authenticate block cancel capture change
	check claim clear clone close commit compare complete confirm connect convert copy count create deactivate decline decrypt
	delete deny deploy detach         disable disconnect dismiss download duplicate edit enable encrypt evaluate execute expire
	export fetch find finalize follow force generate get         import increment index insert install invalidate invite invoke
	join kill leave link list lock login logout lookup mark merge migrate modify move mute         notify open patch pause pay
	ping poll post predict preview process promote publish purge push put query read reactivate rebuild         receive
	reconnect redeem redeliver refresh refund register reject release reload remove rename render renew reopen replace replay
	reply report request rerun resend reset         resize resolve restart restore resume retrieve retry return revert revoke
	rotate run save schedule search send set share show sign signin signout signup skip         snooze start stop submit
	subscribe suspend swap switch sync synchronize terminate test transfer trigger unarchive unassign unblock unfollow uninstall
	unlink unlock unmute unpublish         unregister unsubscribe update upload upsert validate verify void vote watch withdraw`)

// readingVerbs are the verbs that a GET may stand for.
var readingVerbs = wordSet(`check compare count download export fetch find get list login logout lookup ping poll preview query ` +
	`read render search show validate verify watch`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

func firstWord(name string) string {
	word, _, _ := strings.Cut(name, "_")
	return word
}

func lastWord(name string) string { return name[strings.LastIndexByte(name, '_')+1:] }
