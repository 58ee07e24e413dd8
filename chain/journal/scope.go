package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// scopeMark stands between a key and its scope in a row.
const scopeMark = "\x1f"

// scopedKey is a key as rows have it: the same key means another run in each scope. No two keys and scopes make the same.
func scopedKey(key, scope string) string {
	if key == "" || scope == "" && !strings.Contains(key, scopeMark) {
		return key
	}
	hash := sha256.Sum256([]byte(scope))
	return key + scopeMark + hex.EncodeToString(hash[:8])
}

// CallersKey is the run's key as its caller sent it; "": it has none.
func (r *Row) CallersKey() string {
	if end := strings.LastIndex(r.Key, scopeMark); end >= 0 {
		return r.Key[:end]
	}
	return r.Key
}
