package budget

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"
)

// Rights are the rights of a result's owner, as far as results depend on them. What an owner stored with more rights is not returned to
// the same owner with fewer, such as with another of its tokens. The zero value has no rights.
type Rights struct {
	Level int // higher levels allow more; at least 0
	// Scope restricts the rights within the level; "": no restriction. Scopes cannot be compared, so each has its own results, and an
	// owner without a scope may read those of all its scopes.
	Scope string
	// Credentials identify what the owner brought when it stored the result, and brings when it reads one: a result that was made with
	// credentials is read only with the same ones. "": none.
	Credentials string
}

// Cover reports whether an owner with these rights may read what it stored with others.
func (r Rights) Cover(stored Rights) bool {
	return stored.Level <= r.Level && (r.Scope == "" || stored.Scope == r.Scope) &&
		(stored.Credentials == "" || stored.Credentials == r.Credentials)
}

// Text returns the rights as a text, from which CoversText reads them.
func (r Rights) Text() string {
	text := strconv.Itoa(r.Level) + ":" + r.Scope
	if r.Credentials != "" {
		text += "\n" + r.Credentials
	}
	return text
}

// CoversText is Cover of the rights in a text.
func (r Rights) CoversText(text string) bool {
	text, credentials, _ := strings.Cut(text, "\n")
	level, scope, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(level)
	return err == nil && r.Cover(Rights{Level: n, Scope: scope, Credentials: credentials})
}

// WithRights returns the same Results for owners with these rights.
func (r *Results) WithRights(rights Rights) *Results {
	if rights == r.rights {
		return r
	}
	clone := *r
	clone.rights = rights
	return &clone
}

// WithReserve returns the same Results with memory accounting. reserve is called with the number of bytes before a stored value is read,
// and when another value is made of it. An error of reserve ends the operation. The caller frees the memory.
func (r *Results) WithReserve(reserve func(n int) error) *Results {
	clone := *r
	clone.reserve = reserve
	return &clone
}

// reserveBytes calls the reserve function, if there is one.
func (r *Results) reserveBytes(n int) error {
	if r.reserve == nil {
		return nil
	}
	return r.reserve(n)
}

// storedOwner encodes an owner with its rights for a driver, in at most 128 bytes.
func (r Rights) storedOwner(owner string) string {
	if r == (Rights{}) {
		return ownerID(owner)
	}
	stored := ownerID(owner) + ":" + strconv.Itoa(r.Level) + ":" + r.scopeID()
	if r.Credentials != "" {
		stored += "." + r.credentialsID()
	}
	return stored
}

// credentialsID returns the id of the credentials in the store.
func (r Rights) credentialsID() string {
	sum := sha256.Sum256([]byte("credentials of results:" + r.Credentials))
	return hex.EncodeToString(sum[:8])
}

// scopeID returns the id of the scope in the store; "" for none.
func (r Rights) scopeID() string {
	if r.Scope == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("scope of results:" + r.Scope))
	return hex.EncodeToString(sum[:16])
}

// mayRead reports whether owner, with these rights, may read an entry whose Owner is stored.
func (r Rights) mayRead(stored, owner string) bool {
	id, rights, _ := strings.Cut(stored, ":")
	if subtle.ConstantTimeCompare([]byte(id), []byte(ownerID(owner))) == 0 {
		return false
	}
	level, rest, _ := strings.Cut(rights, ":")
	scope, _, _ := strings.Cut(rest, ":") // labels or a mark may follow (see withMarks)
	scope, credentials, _ := strings.Cut(scope, ".")
	n := 0 // the level of an owner that was stored without rights
	if level != "" {
		var err error
		if n, err = strconv.Atoi(level); err != nil {
			return false
		}
	}
	return n <= r.Level && (r.Scope == "" || scope == r.scopeID()) && (credentials == "" || credentials == r.credentialsID())
}
