package budget

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"
)

// Rights are what the owner of a result may do, as far as its results have to know: what was kept by an owner with more rights is
// not given to the same owner once it has fewer, such as by another of its tokens. The zero value has none.
type Rights struct {
	Level int // the higher, the more it may do; at least 0
	// Scope is to what it is bounded within its level, "" to nothing. Of two scopes it is not known which is the wider: each has
	// its own results, and who has none has those of all.
	Scope string
}

// With gives the same Results to an owner with these rights.
func (r *Results) With(rights Rights) *Results {
	if rights == r.rights {
		return r
	}
	own := *r
	own.rights = rights
	return &own
}

// Holding gives the same Results to a user that accounts for memory: hold is asked, before a kept value is read and when another
// was made of it, whether so many bytes may be held; its error is the answer. They are held until the user is done.
func (r *Results) Holding(hold func(n int) error) *Results {
	own := *r
	own.hold = hold
	return &own
}

// holds asks whether so many bytes may be held.
func (r *Results) holds(n int) error {
	if r.hold == nil {
		return nil
	}
	return r.hold(n)
}

// mark is an owner with its rights as a driver keeps it: at most 128 bytes, whatever the owner is.
func (r Rights) mark(owner string) string {
	if r == (Rights{}) {
		return ownerID(owner)
	}
	return ownerID(owner) + ":" + strconv.Itoa(r.Level) + ":" + r.scopeID()
}

// scopeID stands for the scope in the store; "" for none.
func (r Rights) scopeID() string {
	if r.Scope == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("scope of results:" + r.Scope))
	return hex.EncodeToString(sum[:16])
}

// owns reports whether an owner with these rights is given what was kept with such a mark.
func (r Rights) owns(mark, owner string) bool {
	id, had, _ := strings.Cut(mark, ":")
	if subtle.ConstantTimeCompare([]byte(id), []byte(ownerID(owner))) == 0 {
		return false
	}
	level, scope, _ := strings.Cut(had, ":")
	n := 0
	if level != "" {
		var err error
		if n, err = strconv.Atoi(level); err != nil {
			return false
		}
	}
	return n <= r.Level && (r.Scope == "" || scope == r.scopeID())
}
