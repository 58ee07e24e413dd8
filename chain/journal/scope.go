package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// scopeMark separates a key and its scope in a row.
const scopeMark = "\x1f"

// scopedKey returns a key as rows store it: the same key means a different run in each scope. Without a key it returns ""; otherwise
// different pairs of key and scope have different results.
func scopedKey(key, scope string) string {
	if key == "" || scope == "" && !strings.Contains(key, scopeMark) {
		return key
	}
	hash := sha256.Sum256([]byte(scope))
	return key + scopeMark + hex.EncodeToString(hash[:8])
}

// CallersKey returns the run's key as its caller sent it, or "".
func (r *Row) CallersKey() string {
	if end := strings.LastIndex(r.Key, scopeMark); end >= 0 {
		return r.Key[:end]
	}
	return r.Key
}
