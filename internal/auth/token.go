package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Token is an entry of the table of tokens.
type Token struct {
	// Name identifies the caller, also in logs; it is not secret. At most 100 printable bytes.
	Name string
	// SHA256 is the SHA-256 of the token in hex, in upper or lower case; surrounding blanks are ignored. It needs neither a salt nor a slow
	// hash function, because a token must be random (at least 128 bits) and so cannot be guessed.
	SHA256 string
	steps.Rights
	Decides    bool     // see steps.Caller
	DecidesFor []string // the names of other tokens; see steps.Caller
}

const (
	maxName = 100
	tokenID = "token:" // begins the id of the caller of a token
)

// NewToken makes a token of 256 random bits and its entry, which holds the hash but not the token. An invalid name is bad_request.
func NewToken(name string) (text string, entry Token, err error) {
	if f := checkName(name); f != nil {
		return "", Token{}, f
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	text = tokenMark + base64.RawURLEncoding.EncodeToString(random)
	hash := sha256.Sum256([]byte(text))
	return text, Token{Name: name, SHA256: hex.EncodeToString(hash[:])}, nil
}

// tokenMark begins each token that NewToken makes, so that secret scanners recognize it.
const tokenMark = "oc_"

// readTokens checks the table of tokens and indexes it by hash.
func readTokens(list []Token) (map[[sha256.Size]byte]*steps.Caller, []*fault.Error) {
	tokens := make(map[[sha256.Size]byte]*steps.Caller, len(list))
	var faults []*fault.Error
	seen := map[string]bool{}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	for i, token := range list {
		at := fault.Index("/tokens", i)
		add := func(field string, f *fault.Error) {
			if f != nil {
				faults = append(faults, f.Under(at+field))
			}
		}
		f := checkName(token.Name)
		if seen[token.Name] && f == nil {
			f = fault.New(fault.BadRequest, "two tokens have the name %q: each needs one of its own", token.Name)
		}
		seen[token.Name] = true
		add("/name", f)
		hash, f := readHash(token.SHA256)
		if other := tokens[hash]; other != nil && f == nil {
			f = fault.New(fault.BadRequest, "this is the hash of another token of the table too (%q): each caller needs a token of its own",
				strings.TrimPrefix(other.ID, tokenID))
		}
		add("/sha256", f)
		rights, f := checkRights(token.Rights)
		if f != nil {
			add("", f)
		}
		tokens[hash] = &steps.Caller{ID: tokenID + token.Name, Rights: rights, Decides: token.Decides}
		known := slices.DeleteFunc(slices.Clone(token.DecidesFor), func(name string) bool { return !slices.Contains(names, name) })
		if len(known) > 0 {
			tokens[hash].DecidesFor = tokenID + strings.Join(known, "\n"+tokenID)
		}
	}
	return tokens, faults
}

func checkName(name string) *fault.Error {
	invisible := func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }
	switch {
	case name == "":
		return fault.New(fault.BadRequest, "a token needs a name, which distinguishes its caller from others")
	case len(name) > maxName:
		return fault.New(fault.BadRequest, "the name of a token is longer than %d bytes", maxName)
	case strings.ContainsFunc(name, invisible) || strings.TrimSpace(name) != name:
		return fault.New(fault.BadRequest, "the name %q of a token has invisible characters, or blanks around it", name)
	}
	return nil
}

// readHash parses a hash. Its messages do not show the text, which may be the token itself.
func readHash(text string) (hash [sha256.Size]byte, _ *fault.Error) {
	decoded, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(decoded) != len(hash) {
		return hash, fault.New(fault.BadRequest, "sha256 must be the SHA-256 of the token's text: 64 hex digits. The value is not shown, "+
			"because it may be the token itself, which does not belong in the configuration")
	}
	copy(hash[:], decoded)
	if hash == sha256.Sum256(nil) || hash == sha256.Sum256([]byte("\n")) { // "\n": echo without a text, piped to sha256sum
		return hash, fault.New(fault.BadRequest, "this is the hash of an empty text: hash the token's text")
	}
	return hash, nil
}

// checkRights checks rights and returns them in canonical form.
func checkRights(r steps.Rights) (steps.Rights, *fault.Error) {
	if r.Tier > steps.TierAdmin {
		return r, fault.New(fault.BadRequest, "there is no such tier: use read, read_write, admin").Under("/tier")
	}
	r.Tier = max(r.Tier, steps.TierRead)
	if r.Functions == "" {
		return r, nil
	}
	functions, faults := steps.Patterns(strings.Fields(r.Functions))
	if len(faults) > 0 {
		return r, faults[0].Under("/functions")
	}
	r.Functions = functions
	return r, nil
}
