// Package exposure knows what the models of clients were shown of labeled values, and what these clients had sent before: what flow rules
// through a model go by. A Record is of one client: of its session or, without a session, of its caller. Labels are what the engine asks
// for one request.
package exposure

import (
	"crypto/sha256"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// The values that a client has sent are remembered if they are numbers, or texts of at least minText characters, and at most maxSent of a
// client. What is not remembered counts as made of what the client was shown, which is the safe side.
const minText, maxSent = 4, 1 << 14

// Record is what one client was shown, and what it had sent before. Many goroutines may use it. The zero value is that of a client that has
// just come.
type Record struct {
	mu    sync.Mutex
	shown []string       // the labels, in the order in which the client was first shown values with them
	sent  map[digest]int // by value: how many labels had been shown when the client first sent it
}

// digest identifies a value.
type digest [16]byte

type recordKey struct{}

// Of returns the record of a session, which has one from its beginning to its end.
func Of(session *steps.Session) *Record {
	return session.Value(recordKey{}, func() any { return &Record{} }).(*Record)
}

// Send remembers the values of a request that were not sent before, at any depth. all is the number of labels that rules name: once all of
// them have been shown, nothing that is sent is of use any more.
func (r *Record) Send(request []byte, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.shown) < all {
		r.send(gjson.ParseBytes(request))
	}
}

func (r *Record) send(value gjson.Result) {
	if value.IsObject() || value.IsArray() {
		value.ForEach(func(_, member gjson.Result) bool {
			r.send(member)
			return len(r.sent) < maxSent
		})
		return
	}
	id, ok := identify(value)
	if _, known := r.sent[id]; !ok || known || len(r.sent) >= maxSent {
		return
	}
	if r.sent == nil {
		r.sent = map[digest]int{}
	}
	r.sent[id] = len(r.shown)
}

// identify returns what identifies a value; false: it is none that is remembered. Numbers are compared as written.
func identify(value gjson.Result) (id digest, ok bool) {
	var sum [sha256.Size]byte
	switch {
	case value.Type == gjson.String && utf8.RuneCountInString(value.Str) >= minText:
		sum = sha256.Sum256([]byte(`"` + value.Str))
	case value.Type == gjson.Number:
		sum = sha256.Sum256([]byte(value.Raw))
	default:
		return id, false
	}
	return digest(sum[:len(id)]), true
}

// Show remembers that the client is shown values with labels. It returns those that it had not been shown before.
func (r *Record) Show(labels []string) (added []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, label := range labels {
		if !slices.Contains(r.shown, label) {
			r.shown, added = append(r.shown, label), append(added, label)
		}
	}
	return added
}

// Labels returns the labels that a value has which the client sends: those that it was shown, but for those that it was first shown after
// it had sent the same value.
func (r *Record) Labels(value gjson.Result) []string {
	id, ok := identify(value)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.shown)
	if at, known := r.sent[id]; ok && known {
		before = at
	}
	return slices.Clone(r.shown[:before])
}
