package durable

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// NewID returns an id for a batch.
func NewID() string {
	return "batch-" + time.Now().UTC().Format("060102150405-") + strings.ToLower(rand.Text()[:12])
}

// SingleIDOf returns the id of the batch that contains only the chain with this key in a scope of the journal.
func SingleIDOf(scope, key string) string {
	return "key-" + shortHash(scope+"\x00"+key)
}

// IsID reports whether an id is that of a batch, and not of a run.
func IsID(id string) bool { return strings.HasPrefix(id, "batch-") || strings.HasPrefix(id, "key-") }

// RunKey returns the journal key for the run of the chain at a position, unless the chain has its own key.
func (b *Batch) RunKey(position int) string { return b.ID + "/" + strconv.Itoa(position) }

// BatchIDOf returns the id of the batch, and the position in it, of the chain with this key in a scope of the journal.
func BatchIDOf(scope, key string) (id string, position int) {
	if id, number, ok := strings.Cut(key, "/"); ok && strings.HasPrefix(id, "batch-") {
		if n, err := strconv.Atoi(number); err == nil {
			return id, n
		}
	}
	return SingleIDOf(scope, key), 0
}

// QueueOf returns the queue that clients and workers share unless the engine's URL names one. A journal on this machine's disk keeps the
// runs of each configuration apart, and so must their workers: a worker that does not find a run would begin it again.
func QueueOf(scope string) string {
	if scope == "" {
		return "onecall"
	}
	return "onecall-" + shortHash(scope)
}

// shortHash returns a short name for a text that is long or secret.
func shortHash(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:16])
}
