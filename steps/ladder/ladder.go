package ladder

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Mode is what becomes of a call that skips more than one rung. The zero value is Off.
type Mode uint8

// The modes.
const (
	Off     Mode = iota // "off": nothing is looked at
	Warn                // "warn": it is made, and its caller is warned (Warn of steps.Callbacks); it is logged too (Options.Log)
	Enforce             // "enforce": it is refused with denied, and the function is not called
)

var modeNames = []string{Off: "off", Warn: "warn", Enforce: "enforce"}

// String is the mode's word: "off", "warn" or "enforce".
func (m Mode) String() string { return modeNames[min(int(m), len(modeNames)-1)] }

// ParseMode reads a mode's word exactly as String spells it; bad_request for anything else.
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

// defaultMaxSubjects is how many subjects a session remembers where Options say nothing.
const defaultMaxSubjects = 4096

// maxRungs bounds a ladder: more are no order that a reader keeps in mind.
const maxRungs = 100

// Options describe a ladder.
type Options struct {
	Mode    Mode
	Subject string   // the argument that says what a call is about, in any spelling that its functions accept
	Rungs   []string // names of functions from cheap to costly, resolved like those of a chain (Registry.Resolve); 2 to 100

	// Partial says that not all functions are known, as in a replay: in Enforce mode too, a rung that names none does not
	// exist.
	Partial bool

	// MaxSubjects bounds what a session remembers; the subject that was not called for longest is forgotten first, and
	// begins at the foot of the ladder again. 0: 4,096.
	MaxSubjects int

	// Log gets each call that Warn mode lets pass, at the level of warnings and without its subject: a caller may be told of
	// it in no other way, as one whose answer has no room for warnings. nil: nothing is logged.
	Log *slog.Logger
}

// Ladder is an order of functions. It may be used by many goroutines. nil is no ladder.
type Ladder struct {
	id      string // of its rungs and its subject: another ladder of the same is the same to a session
	enforce bool
	closed  bool // calls that may skip a rung whose function is unknown are refused
	subject string
	written []string // the rungs as they were named
	max     int
	log     *slog.Logger
}

// New makes a ladder; nil where its mode is Off. All that is wrong is told at once, as bad_request, with places in Options
// as a configuration spells them (/subject, /rungs/2). With Off, what is given is checked, and nothing needs to be given.
func New(o *Options) (*Ladder, []*fault.Error) {
	l := &Ladder{
		enforce: o.Mode == Enforce, closed: o.Mode == Enforce && !o.Partial,
		subject: o.Subject, written: o.Rungs, max: cmp.Or(o.MaxSubjects, defaultMaxSubjects), log: o.Log,
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

// resolve finds the function of each rung; nil for one that names none, several, or that of another rung, with a fault.
func (l *Ladder) resolve(r *steps.Registry) (entries []*steps.Entry, faults []*fault.Error) {
	for i, name := range l.written {
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

// Unresolved reports the rungs that do not name one function of the registry, as bad_request with the nearest names and a
// place in Options.
func (l *Ladder) Unresolved(r *steps.Registry) []*fault.Error {
	if l == nil {
		return nil
	}
	_, faults := l.resolve(r)
	return faults
}

// Unjudged reports the rungs above the first whose function does not declare the subject, so that its calls cannot be
// judged. It is bad_request, with the nearest names and a place in Options.
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
