package console

import (
	"context"
	"errors"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// mustAct refuses an action of a viewer who may only look.
func (r *request) mustAct() error {
	if r.viewer.Acts {
		return nil
	}
	return fault.New(fault.Denied, "your token may look, not act: that needs console: approve at your token in the configuration")
}

// own returns whose runs the viewer may resume, undo and sum up, for filters of the journal; nil: those of all callers.
func (r *request) own() []string {
	if r.viewer.All {
		return nil
	}
	return []string{r.viewer.ID}
}

// decides returns whose runs the viewer may see and decide about: beside its own, those of the callers that its token names. nil: those of
// all callers.
func (r *request) decides() []string {
	if r.viewer.All || r.viewer.DecidesFor == "" {
		return r.own()
	}
	return append(r.own(), strings.Split(r.viewer.DecidesFor, "\n")...)
}

// read reads a run of one of these callers; nil: of any. It fails with journal.ErrNotFound if there is none, or it is of another caller or
// scope.
func (r *request) read(ctx context.Context, id string, callers []string) (*journal.Past, error) {
	past, err := r.readOf(ctx, id, callers)
	if err == nil && r.Scope != nil && past.Row.Scope != *r.Scope {
		return nil, journal.ErrNotFound
	}
	return past, err
}

func (r *request) readOf(ctx context.Context, id string, callers []string) (*journal.Past, error) {
	if callers == nil {
		return r.Journal.Read(ctx, id, nil)
	}
	for i := range callers {
		if past, err := r.Journal.Read(ctx, id, &callers[i]); !errors.Is(err, journal.ErrNotFound) {
			return past, err
		}
	}
	return nil, journal.ErrNotFound
}

// mustHaveJournal refuses pages of runs if there are none.
func (r *request) mustHaveJournal() error {
	if r.Journal == nil {
		return fault.New(fault.NotSupported, "runs are not recorded: the configuration says journal: {store: off}")
	}
	return nil
}
