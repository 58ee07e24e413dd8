package decode

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// maxFaults bounds the faults that are collected for one request.
const maxFaults = 1000

// Faults collects faults. Those after maxFaults are only counted. The zero value is empty.
type Faults struct {
	List     []*fault.Error
	More     int // how many are left out of List
	pointers map[string]bool
}

// Add adds faults.
func (l *Faults) Add(faults ...*fault.Error) {
	for _, f := range faults {
		if len(l.List) == maxFaults {
			l.More++
			continue
		}
		if l.pointers == nil {
			l.pointers = map[string]bool{}
		}
		l.List, l.pointers[f.At] = append(l.List, f), true
	}
}

// At reports whether a JSON Pointer has had a fault.
func (l *Faults) At(pointer string) bool { return l.pointers[pointer] }

// Within reports whether a JSON Pointer, or one above it, has had a fault.
func (l *Faults) Within(pointer string) bool {
	for pointer != "" {
		if l.pointers[pointer] {
			return true
		}
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return false
}
