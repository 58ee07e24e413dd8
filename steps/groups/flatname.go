package groups

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// FlatNames gives functions the names that they have as tools of their own, function → tool. All are different, none is
// reserved, and each matches ^[A-Za-z0-9_-]{1,52}$. A tool of an MCP server keeps the name that its server gave it
// where that is such a name, no other server's tool has it and the function was not renamed. Any other function has its own name
// with _ for each other character; one that is too long or not unique then ends in some digits of the name's hash. A saved chain
// has its name without the source, where no other tool has it. Names
// do not depend on the order of entries, and change only where they clash with what comes or goes.
func FlatNames(entries []*steps.Entry, reserved []string) map[string]string {
	n := newNamer(reserved)
	others := map[string]bool{}
	for _, e := range entries {
		spec := e.Spec()
		own := ""
		if spec.Saved != nil {
			continue
		}
		if len(spec.Listing) > 0 {
			_, tail, _ := strings.Cut(spec.Name, ".")
			if listed := gjson.GetBytes(spec.Listing, "name"); listed.Type == gjson.String && listed.Str == tail {
				own = tail
			}
		}
		n.want(spec.Name, own)
		others[own], others[plain(spec.Name)] = true, true
	}
	for _, e := range entries {
		if e.Spec().Saved == nil {
			continue
		}
		own := plain(strings.TrimPrefix(e.Spec().Name, steps.ChainSource+"."))
		if others[own] {
			own = ""
		}
		n.want(e.Spec().Name, own)
	}
	return n.names()
}

// namer gives tool names, which do not depend on the order in which they are asked for.
type namer struct {
	taken map[string]bool
	short map[string]string // what is named → its short name, "" where it has none
}

func newNamer(reserved []string) *namer {
	n := &namer{taken: map[string]bool{}, short: map[string]string{}}
	for _, name := range reserved {
		n.reserve(name)
	}
	return n
}

func (n *namer) reserve(name string) { n.taken[name] = true }

// want asks for a name for what has the name full: short if it can be, else one that is made of full.
func (n *namer) want(full, short string) { n.short[full] = short }

// names gives the short names that are free and asked for once, then the made ones that are, and a hash to the others.
func (n *namer) names() map[string]string {
	given := make(map[string]string, len(n.short))
	var open []string
	settle := func(candidate func(full string) string) {
		asked := map[string]int{}
		for _, full := range open {
			asked[candidate(full)]++
		}
		var left, won []string
		for _, full := range open {
			name := candidate(full)
			if !toolName.MatchString(name) || n.taken[name] || asked[name] > 1 {
				left = append(left, full)
				continue
			}
			given[full] = name
			won = append(won, name)
		}
		for _, name := range won {
			n.taken[name] = true
		}
		open = left
	}
	open = slices.Sorted(maps.Keys(n.short))
	settle(func(full string) string { return n.short[full] })
	settle(plain)
	for attempt := 0; len(open) > 0; attempt++ {
		settle(func(full string) string { return hashed(full, attempt) })
	}
	return given
}

// maxToolName keeps a name within 60 characters together with that of the server, which hosts put before it.
const maxToolName, hashDigits = 60 - len("onecall_"), 7

// plain is a name with _ for what no tool's name holds.
func plain(full string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, full)
}

// hashed is the beginning of a plain name with digits of the hash of the whole name. A further attempt has other digits.
func hashed(full string, attempt int) string {
	salted := full
	if attempt > 0 {
		salted += " " + strconv.Itoa(attempt)
	}
	sum := sha256.Sum256([]byte(salted))
	name := plain(full)
	return name[:min(len(name), maxToolName-1-hashDigits)] + "_" + hex.EncodeToString(sum[:])[:hashDigits]
}
