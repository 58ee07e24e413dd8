package fault

import (
	"strconv"
	"strings"
)

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// Key appends an object's key, escaped, to a JSON Pointer (RFC 6901).
func Key(pointer, key string) string { return pointer + "/" + pointerEscape.Replace(key) }

// Index appends an array's index to a JSON Pointer.
func Index(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }
