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

// FlatNames returns the names that functions have as separate tools, by function. All are unique, none is reserved, and each
// matches ^[A-Za-z0-9_-]{1,52}$. An MCP tool keeps its server's name if that is valid, no other server's tool has it, and the
// function was not renamed. Any other function has its own name, with _ in place of other characters; a name that is too long or
// not unique ends in digits of its hash. A saved chain has its name without the source if no other tool has it. Names do not depend
// on the order of entries. They change only if a function with a clashing name is added or removed.
func FlatNames(entries []*steps.Entry, reserved []string) map[string]string {
	n := newNamer(reserved)
	toolNames := map[string]bool{}
	for _, e := range entries {
		spec := e.Spec()
		short := ""
		if spec.Saved != nil {
			continue
		}
		if len(spec.Listing) > 0 {
			_, tail, _ := strings.Cut(spec.Name, ".")
			if listed := gjson.GetBytes(spec.Listing, "name"); listed.Type == gjson.String && listed.Str == tail {
				short = tail
			}
		}
		n.want(spec.Name, short)
		toolNames[short], toolNames[sanitize(spec.Name)] = true, true
	}
	for _, e := range entries {
		if e.Spec().Saved == nil {
			continue
		}
		short := sanitize(strings.TrimPrefix(e.Spec().Name, steps.ChainSource+"."))
		if toolNames[short] {
			short = ""
		}
		n.want(e.Spec().Name, short)
	}
	return n.names()
}

// namer assigns tool names independently of the order of requests.
type namer struct {
	taken map[string]bool
	short map[string]string // full name → short name, "" if it has none
}

func newNamer(reserved []string) *namer {
	n := &namer{taken: map[string]bool{}, short: map[string]string{}}
	for _, name := range reserved {
		n.reserve(name)
	}
	return n
}

func (n *namer) reserve(name string) { n.taken[name] = true }

// want requests a name for full: short if possible, else a name made from full.
func (n *namer) want(full, short string) { n.short[full] = short }

// names assigns the short names that are free and requested only once, then the full names under the same rule, and hashed names to
// the rest.
func (n *namer) names() map[string]string {
	assigned := make(map[string]string, len(n.short))
	var unnamed []string
	assign := func(candidate func(full string) string) {
		requests := map[string]int{}
		for _, full := range unnamed {
			requests[candidate(full)]++
		}
		var remaining, granted []string
		for _, full := range unnamed {
			name := candidate(full)
			if !toolName.MatchString(name) || n.taken[name] || requests[name] > 1 {
				remaining = append(remaining, full)
				continue
			}
			assigned[full] = name
			granted = append(granted, name)
		}
		for _, name := range granted {
			n.taken[name] = true
		}
		unnamed = remaining
	}
	unnamed = slices.Sorted(maps.Keys(n.short))
	assign(func(full string) string { return n.short[full] })
	assign(sanitize)
	for attempt := 0; len(unnamed) > 0; attempt++ {
		assign(func(full string) string { return hashedName(full, attempt) })
	}
	return assigned
}

// maxToolName keeps a name within 60 characters, including the server's name, onecall_, which hosts put before it. hashDigits is how many
// hexadecimal digits end a hashed name.
const maxToolName, hashDigits = 60 - len("onecall_"), 7

// sanitize replaces characters that are invalid in tool names with _.
func sanitize(full string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, full)
}

// hashedName returns the beginning of a sanitized name with digits of the hash of the whole name. Each attempt gives different
// digits.
func hashedName(full string, attempt int) string {
	salted := full
	if attempt > 0 {
		salted += " " + strconv.Itoa(attempt)
	}
	sum := sha256.Sum256([]byte(salted))
	name := sanitize(full)
	return name[:min(len(name), maxToolName-1-hashDigits)] + "_" + hex.EncodeToString(sum[:])[:hashDigits]
}
