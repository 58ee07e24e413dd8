package replay

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/agext/levenshtein"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// answers are the recorded calls of one function, by arguments and chain.
type answers struct {
	spec   *steps.Spec
	redact redaction
	calls  []call     // in file order
	mu     sync.Mutex // guards the hashes of calls
	index  map[answerKey][]*call
}

type answerKey struct {
	digest digest
	chain  string // "" for lines that every chain sees
}

// newAnswers indexes the calls of all spellings of a function's name. Secret arguments in the recording are hidden like those of calls,
// because a recording may be written by hand.
func (c *Cassette) newAnswers(spec *steps.Spec, variants []*recordedFunction) (*answers, error) {
	a := &answers{spec: spec, redact: redactionOf(spec), index: map[answerKey][]*call{}}
	for _, fn := range variants {
		a.calls = append(a.calls, fn.calls...)
	}
	if len(variants) > 1 {
		slices.SortFunc(a.calls, func(x, y call) int { return x.number - y.number })
	}
	for i := range a.calls {
		one := &a.calls[i]
		args := one.args
		var configured []string
		if one.seal == c.unsalted { // such lines may contain configured secrets as text
			configured = c.Secrets
		}
		if one.hasMarks {
			args = quoteMarks(args) // otherwise the member "secret" of a mark would be hidden as a secret
		}
		var hidden []string
		if shown := sealArguments(one.seal, a.redact, args, configured, &hidden); len(hidden) > 0 || !bytes.Equal(shown, one.args) {
			var err error
			one.args = shown
			if one.digest, err = digestOf(shown); err != nil {
				return nil, err
			}
		}
		key := answerKey{one.digest, one.chain}
		a.index[key] = append(a.index[key], one)
	}
	return a, nil
}

// request is a call to answer.
type request struct {
	shown       []byte   // its arguments without secrets
	digest      digest   // the digest of shown
	hidden      []string // the secrets
	chainCalls  []*call  // the answers that only this chain sees
	sharedCalls []*call  // the answers that every chain sees
}

// find finds the answers to a call of a chain, in all parts of a recording, each of which has its own salt.
func (c *Cassette) find(a *answers, args []byte, chain string) (*request, error) {
	r := &request{}
	var first [1]digest
	seen := first[:0]
	for _, seal := range c.seals {
		shown := sealArguments(seal, a.redact, args, c.Secrets, &r.hidden)
		d, err := digestOf(shown)
		switch {
		case err != nil:
			return nil, err
		case len(seen) == 0:
			r.shown, r.digest = shown, d
		case slices.Contains(seen, d):
			continue
		}
		seen = append(seen, d)
		if chain != "" {
			r.chainCalls = mergeByLine(r.chainCalls, a.index[answerKey{d, chain}])
		}
		r.sharedCalls = mergeByLine(r.sharedCalls, a.index[answerKey{d, ""}])
		if len(r.hidden) == 0 && bytes.Equal(shown, args) {
			break // without secrets, every seal gives the same arguments
		}
	}
	if len(seen) == 0 { // the recording holds no call at all
		r.shown = args
		return r, nil
	}
	if len(r.chainCalls)+len(r.sharedCalls) == 0 {
		c.searchMarked(a, args, chain, r)
	}
	return r, nil
}

// mergeByLine merges lists in file order, without changing either.
func mergeByLine(list, more []*call) []*call {
	switch {
	case len(list) == 0:
		return more
	case len(more) == 0:
		return list
	}
	list = append(slices.Clip(list), more...)
	slices.SortFunc(list, func(x, y *call) int { return x.number - y.number })
	return list
}

// searchMarked adds to r the recorded calls with marks that sameArguments accepts.
func (c *Cassette) searchMarked(a *answers, args []byte, chain string, r *request) {
	shown := map[*secret.Seal][]byte{}
	for i := range a.calls {
		one := &a.calls[i]
		if !one.hasMarks || !one.visibleTo(chain) {
			continue
		}
		if shown[one.seal] == nil {
			shown[one.seal] = sealArguments(one.seal, a.redact, args, c.Secrets, new([]string))
		}
		var hidden []string
		if !c.sameArguments(one.seal, gjson.ParseBytes(one.args), gjson.ParseBytes(shown[one.seal]), &hidden) {
			continue
		}
		r.hidden = append(r.hidden, hidden...)
		if one.chain != "" {
			r.chainCalls = append(r.chainCalls, one)
		} else {
			r.sharedCalls = append(r.sharedCalls, one)
		}
	}
}

// position counts the answers given from the chain's and from the shared calls.
type position struct{ chain, shared int }

// next returns the next answer in file order, and after all of them the last one again and again. chainCalls are the calls that only the
// chain sees. At least one of the lists must not be empty.
func (p *position) next(chainCalls, sharedCalls []*call) *call {
	moreChain, moreShared := p.chain < len(chainCalls), p.shared < len(sharedCalls)
	lastChain, lastShared := len(chainCalls)-1, len(sharedCalls)-1
	switch {
	case moreChain && (!moreShared || chainCalls[p.chain].number < sharedCalls[p.shared].number):
		p.chain++
		return chainCalls[p.chain-1]
	case moreShared:
		p.shared++
		return sharedCalls[p.shared-1]
	case lastShared < 0 || lastChain >= 0 && chainCalls[lastChain].number > sharedCalls[lastShared].number:
		return chainCalls[lastChain]
	}
	return sharedCalls[lastShared]
}

// Bounds of the search for the nearest arguments, which must not make a wrong replay slow.
const (
	maxCompared = 1000 // calls whose members are compared
	maxAlike    = 10   // calls whose texts are compared: those with the most equal members
	maxMembers  = 30   // members of each
	maxText     = 300  // bytes of each text
	maxNearest  = 3    // arguments, or chains, that an error lists
)

// notRecorded returns the error of a call that the recording does not contain; with suggest it lists the nearest recorded
// arguments.
func (a *answers) notRecorded(args []byte, chain, recording string, suggest bool) *fault.Error {
	f := fault.New(fault.NotRecorded, "%s holds no call of %s with these arguments", recording, a.spec.Name)
	switch {
	case !slices.ContainsFunc(a.calls, func(one call) bool { return one.visibleTo(chain) }):
		f.Message = recording + " holds no call of " + a.spec.Name
		if others := a.chains(); len(others) > 0 {
			f.Message = recording + " holds calls of " + a.spec.Name + " for the chain " + strings.Join(others, ", ") + " only"
		} else if chain != "" {
			f.Message += " that the chain " + chain + " sees"
		}
	case suggest:
		f.Nearest = a.nearest(args, chain)
		f.Message += "; the nearest are " + f.Nearest[0]
	}
	return f
}

// chains returns some chains for which calls of the function are recorded.
func (a *answers) chains() (names []string) {
	for i := range a.calls {
		if name := a.calls[i].chain; name != "" && !slices.Contains(names, name) && len(names) < maxNearest {
			names = append(names, name)
		}
	}
	return names
}

// visibleTo reports whether a chain gets this answer.
func (c *call) visibleTo(chain string) bool { return c.chain == "" || c.chain == chain }

// nearest returns the recorded arguments with the most equal members; among equals, those whose text is most alike.
func (a *answers) nearest(args []byte, chain string) []string {
	type candidate struct {
		args  []byte
		equal int
		alike float64
	}
	var candidates []candidate
	seen := map[digest]bool{}
	wanted := memberHashes(args)
	a.mu.Lock()
	for i := range a.calls {
		one := &a.calls[i]
		if !one.visibleTo(chain) || seen[one.digest] {
			continue
		}
		seen[one.digest] = true
		if one.hashes == nil {
			one.hashes = memberHashes(one.args)
		}
		equal := 0
		for _, hash := range one.hashes {
			if slices.Contains(wanted, hash) {
				equal++
			}
		}
		if candidates = append(candidates, candidate{args: one.args, equal: equal}); len(candidates) == maxCompared {
			break
		}
	}
	a.mu.Unlock()
	slices.SortStableFunc(candidates, func(x, y candidate) int { return y.equal - x.equal })
	candidates = candidates[:min(len(candidates), maxAlike)]
	text := cut(args)
	for i := range candidates {
		candidates[i].alike = levenshtein.Match(text, cut(candidates[i].args), nil)
	}
	slices.SortStableFunc(candidates, func(x, y candidate) int {
		if x.equal != y.equal {
			return y.equal - x.equal
		}
		return cmp.Compare(y.alike, x.alike)
	})
	var nearest []string
	for _, c := range candidates[:min(len(candidates), maxNearest)] {
		nearest = append(nearest, fault.Short(string(c.args)))
	}
	return nearest
}

func cut(args []byte) string { return strings.ToValidUTF8(string(args[:min(len(args), maxText)]), "") }

var hashSeed = maphash.MakeSeed()

// memberHashes returns the hashes of an object's first members, names included, in canonical form; never nil.
func memberHashes(args []byte) []uint64 {
	hashes := []uint64{}
	text, err := appendCanonical(nil, args)
	if err != nil {
		return hashes
	}
	gjson.ParseBytes(text).ForEach(func(name, value gjson.Result) bool {
		hashes = append(hashes, maphash.String(hashSeed, name.Raw+":"+value.Raw))
		return len(hashes) < maxMembers
	})
	return hashes
}
