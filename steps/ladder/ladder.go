package ladder

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Mode says what happens to a call that skips more than one rung. The zero value is Off.
type Mode uint8

// The modes.
const (
	Off     Mode = iota // "off": nothing is checked
	Warn                // "warn": the call is made and logged (Options.Log), and its caller is warned (Warn of steps.Callbacks)
	Enforce             // "enforce": the call is refused with denied, and the function is not called
)

var modeNames = []string{Off: "off", Warn: "warn", Enforce: "enforce"}

// String returns "off", "warn" or "enforce".
func (m Mode) String() string { return modeNames[min(int(m), len(modeNames)-1)] }

// ParseMode parses a word that String returns; bad_request for anything else.
func ParseMode(word string) (Mode, error) {
	for m, name := range modeNames {
		if word == name {
			return Mode(m), nil
		}
	}
	f := fault.New(fault.BadRequest, "unknown mode: use %s", strings.Join(modeNames, ", "))
	f.Available, f.Nearest = modeNames, fault.Nearest(word, modeNames, 1)
	return Off, f
}

// defaultMaxSubjects is how many subjects a session remembers by default.
const defaultMaxSubjects = 4096

// maxRungs bounds a ladder: people cannot keep a longer order in mind.
const maxRungs = 100

// Options describe a ladder.
type Options struct {
	Mode    Mode
	Subject string   // the argument with the subject of a call, in any spelling that its functions accept
	Rungs   []string // names of functions from cheap to expensive, resolved as in a chain (Registry.Resolve); 2 to 100

	// Partial says that not all functions are known, as in a replay. A rung that names no function then does not exist, even in Enforce mode.
	Partial bool

	// MaxSubjects bounds what a session remembers; the least recently called subject is forgotten first, and starts below
	// the first rung again. 0: 4,096.
	MaxSubjects int

	// Log receives a warning for each call that Warn mode lets pass, without its subject. The caller itself may not see the warning, if its
	// answer has no space for warnings. nil: nothing is logged.
	Log *slog.Logger
}

// Ladder is an order of functions. Many goroutines may use it. nil is no ladder.
type Ladder struct {
	id        string // identifies its rungs and its subject; a session treats equal ladders as the same
	enforce   bool
	strict    bool // refuse calls that may skip a rung whose function is unknown
	subject   string
	rungNames []string // the rungs as configured
	max       int      // Options.MaxSubjects, or its default
	log       *slog.Logger
}

// New creates a ladder; nil if its mode is Off. It returns all faults, bad_request, with positions in Options as a
// configuration spells them (/subject, /rungs/2). With Off, both may be missing, but rungs need a subject.
func New(o *Options) (*Ladder, []*fault.Error) {
	l := &Ladder{
		enforce: o.Mode == Enforce, strict: o.Mode == Enforce && !o.Partial,
		subject: o.Subject, rungNames: o.Rungs, max: cmp.Or(o.MaxSubjects, defaultMaxSubjects), log: o.Log,
	}
	var faults []*fault.Error
	wrong := func(at, format string, args ...any) {
		faults = append(faults, fault.New(fault.BadRequest, format, args...).Under(at))
	}
	on := o.Mode != Off
	switch {
	case fold(o.Subject) != "":
	case o.Subject != "":
		wrong("/subject", "%.60q is the name of no argument: it needs more than _ and -", o.Subject)
	case on || len(o.Rungs) > 0:
		wrong("/subject", "a ladder needs a subject: the argument that says what a call is about, such as symbolId")
	}
	if n := len(o.Rungs); n < 2 && (on || n > 0) || n > maxRungs {
		wrong("/rungs", "a ladder has 2 to %d rungs, from cheap to costly: this one has %d", maxRungs, n)
	}
	if o.MaxSubjects < 0 {
		wrong("/maxSubjects", "MaxSubjects is %d: it cannot be below zero", o.MaxSubjects)
	}
	folds := []string{fold(o.Subject)}
	for i, name := range o.Rungs {
		folded, at := steps.FoldName(name), fault.Index("/rungs", i)
		switch first := slices.Index(folds[1:], folded); {
		case folded == "":
			wrong(at, "a rung is the name of a function, such as symbol.search")
		case first >= 0:
			wrong(at, "this function is rung %d already: name it once", first+1)
		}
		folds = append(folds, folded)
	}
	if len(faults) > 0 || !on {
		return nil, faults
	}
	l.id = strings.Join(folds, "\x00")
	return l, nil
}

// resolve finds the function of each rung. A rung that names no function, several functions, or the function of another rung gets nil and a
// fault.
func (l *Ladder) resolve(r *steps.Registry) (entries []*steps.Entry, faults []*fault.Error) {
	for i, name := range l.rungNames {
		entry, err := r.Resolve(name)
		unknown, _ := fault.As(err)
		var f *fault.Error
		switch first := slices.Index(entries, entry); {
		case unknown != nil && len(unknown.Available) > 0:
			f = fault.New(fault.BadRequest, "%.60q is the name of several functions: write one of %s", name, strings.Join(unknown.Available, ", "))
		case unknown != nil:
			f = fault.New(fault.BadRequest, "%.60q names no function", name)
		case first >= 0:
			f = fault.New(fault.BadRequest, "%.60q is %s, which is rung %d already: name it once", name, entry.Spec().Name, first+1)
		}
		if f != nil {
			if unknown != nil {
				f.Nearest = unknown.Nearest
			}
			entry, faults = nil, append(faults, f.Under(fault.Index("/rungs", i)))
		}
		entries = append(entries, entry)
	}
	return entries, faults
}

// Unresolved returns a fault for each rung that does not name one function of the registry, bad_request with the nearest
// names and a position in Options.
func (l *Ladder) Unresolved(r *steps.Registry) []*fault.Error {
	if l == nil {
		return nil
	}
	_, faults := l.resolve(r)
	return faults
}

// Unjudged returns a fault for each rung above the first whose function does not declare the subject, so that its calls
// cannot be judged: bad_request, with the nearest names and a position in Options.
func (l *Ladder) Unjudged(r *steps.Registry) (faults []*fault.Error) {
	if l == nil {
		return nil
	}
	entries, _ := l.resolve(r)
	for i, entry := range entries {
		if i > 0 && entry != nil && len(entry.Properties()) > 0 && entry.Argument(l.subject) == "" {
			f := fault.New(fault.BadRequest, "%s declares no argument %.60q: its calls are not judged", entry.Spec().Name, l.subject)
			f.Nearest = fault.Nearest(l.subject, entry.Properties(), 1)
			faults = append(faults, f.Under(fault.Index("/rungs", i)))
		}
	}
	return faults
}
