// Package credential holds what callers bring for sources that are called as their callers: headers of their own requests, tokens for
// which theirs are exchanged, or what they have logged in with. It also gets the tokens of onecall itself.
package credential

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Rule says what callers bring for one source, or for one HTTP endpoint.
type Rule struct {
	Name string   // of the source, or of the endpoint's function
	Pass []string // headers of the request that calls carry; a request needs each of them, once
	// Exchange is where the token of the request, which an authorization server has issued, is exchanged for one that calls carry (RFC 8693);
	// nil: calls carry Pass.
	Exchange *Endpoint
	// Login has what callers have logged in with, once, which needs nothing of a request; nil: calls carry what the request brings.
	Login *Logins
}

// Bounds of what is remembered. What no request has brought for maxIdle is forgotten, until another request brings it.
const (
	maxCredentials = 4096
	maxIdle        = time.Hour
)

// Table implements steps.Credentials. Many goroutines may use it. The zero value is not usable.
type Table struct {
	rules  []Rule
	logins bool                          // a rule has logins
	slots  *simplelru.LRU[string, *slot] // by ID, of these rules; guarded by memory.mu
	*memory

	// MAC identifies texts and reveals nothing of them. It may be set before the first request, to one that is the same for all processes that
	// share a journal: runs are bound to what it returns. The one of New is another one in each process.
	MAC func(texts ...[]byte) []byte
	// Changed is called when a caller has logged in or is not logged in any more; nil: nobody needs to know. It is set before the first
	// request.
	Changed func()
}

// memory has the credentials that requests have brought.
type memory struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, *entry] // by the ID of the credential
}

type entry struct {
	*steps.Credential
	endpoint *Endpoint // that of its rule; another one takes its place, also for callers that are known
	used     time.Time
}

// New returns a table with these rules, which have different names. It knows what the table knows that it replaces; nil: there is none.
func New(rules []Rule, before *Table) *Table {
	t := &Table{rules: slices.Clone(rules)}
	t.logins = slices.ContainsFunc(rules, func(r Rule) bool { return r.Login != nil })
	slices.SortFunc(t.rules, func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
	t.slots, _ = simplelru.NewLRU[string, *slot](maxCredentials, nil) // fails only for a size below 1
	if before != nil {
		t.memory, t.MAC = before.memory, before.MAC
		t.takeSlots(before)
		return t
	}
	t.memory, t.MAC = &memory{}, processMAC()
	t.known, _ = simplelru.NewLRU[string, *entry](maxCredentials, nil)
	return t
}

// processMAC returns an HMAC under a key that only this process has.
func processMAC() func(texts ...[]byte) []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return func(texts ...[]byte) []byte {
		h := hmac.New(sha256.New, key)
		for _, text := range texts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
			h.Write(text)
		}
		return h.Sum(nil)[:16]
	}
}

// Bring remembers what a request of a caller brings, and returns the IDs of its credentials, separated by blanks and in the order of their
// names; "": it brings nothing. Those of logins are there whether the caller is logged in or not, and without a header, too.
func (t *Table) Bring(caller *steps.Caller, header http.Header) string {
	var ids []string
	for i := range t.rules {
		r := &t.rules[i]
		if r.Login != nil {
			if id := t.bringLogin(r, caller.ID); id != "" {
				ids = append(ids, id)
			}
			continue
		}
		if r.Exchange != nil && !strings.HasPrefix(caller.ID, "jwt:") {
			continue // such as a token of the table: it means nothing to others
		}
		if headers := passed(header, r.brings()); headers != nil {
			ids = append(ids, t.remember(r, caller, headers))
		}
	}
	return strings.Join(ids, " ")
}

// brings returns the headers that a request needs.
func (r *Rule) brings() []string {
	if r.Exchange != nil {
		return authorization
	}
	return r.Pass
}

var authorization = []string{"Authorization"}

// credential returns what a caller brings in these headers.
func (r *Rule) credential(digest string, caller *steps.Caller, headers map[string]string) *steps.Credential {
	if r.Exchange == nil {
		return passedCredential(r.Name, digest, headers)
	}
	_, subject, _ := strings.Cut(strings.TrimSpace(headers["Authorization"]), " ") // of a caller that this token identified
	return exchangedCredential(r, digest, strings.TrimSpace(subject), caller.Expires)
}

// passed returns the named headers of a request; nil: one of them is missing, is there twice, or cannot be sent.
func passed(header http.Header, names []string) map[string]string {
	headers := make(map[string]string, len(names))
	for _, name := range names {
		values := header[http.CanonicalHeaderKey(name)]
		if len(values) != 1 || values[0] == "" || !httpguts.ValidHeaderFieldValue(values[0]) {
			return nil
		}
		headers[name] = values[0]
	}
	return headers
}

// remember adds the credential of a caller, unless it is known, and returns its ID. The ID says nothing of the endpoint, so that runs can
// go on after a reload that has changed its secret.
func (t *Table) remember(r *Rule, caller *steps.Caller, headers map[string]string) string {
	parts := [][]byte{[]byte("credential"), []byte(caller.ID), []byte(r.Name)}
	for _, name := range r.brings() {
		parts = append(parts, []byte(http.CanonicalHeaderKey(name)), []byte(headers[name]))
	}
	digest := hex.EncodeToString(t.MAC(parts...))
	id := (&steps.Credential{Name: r.Name, Digest: digest}).ID()
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known.Get(id); ok && known.endpoint == r.Exchange {
		known.used = now
		return id
	}
	for {
		_, oldest, ok := t.known.GetOldest()
		if !ok || now.Sub(oldest.used) < maxIdle {
			break
		}
		t.known.RemoveOldest()
	}
	t.known.Add(id, &entry{r.credential(digest, caller, headers), r.Exchange, now})
	return id
}

// Find implements steps.Credentials.
func (t *Table) Find(name, digest string) *steps.Credential {
	if c, known := t.findLogin(name, digest); known {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known.Peek((&steps.Credential{Name: name, Digest: digest}).ID())
	if !ok || time.Since(known.used) >= maxIdle {
		return nil
	}
	return known.Credential
}

// Missing implements steps.Credentials.
func (t *Table) Missing(name string) *fault.Error {
	for i := range t.rules {
		switch r := &t.rules[i]; {
		case r.Name != name:
		case r.Login != nil:
			return fault.New(fault.Denied, "%s is called with a login of your own: %s", name, r.Login.Help)
		case r.Exchange != nil:
			return fault.New(fault.Denied, "%s is called with a token for which yours is exchanged: come to onecall with a token of the authorization "+
				"server", name)
		default:
			return fault.New(fault.Denied, "%s is called with your own credential: send %s with each request to onecall, exactly once and not empty",
				name, HeadersInWords(r.Pass))
		}
	}
	return nil
}

// HeadersInWords names the headers of a rule for a message.
func HeadersInWords(names []string) string {
	if len(names) == 1 {
		return "the header " + names[0] + ""
	}
	return "the headers " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + ""
}
