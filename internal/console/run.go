package console

import (
	"context"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/history"
)

// runView is the page of one run.
type runView struct {
	*history.Timeline
	Flags string // see Backend.Flags
	Acts  bool   // the viewer may resume it
}

// CanResume reports whether a resume can continue the run.
func (v *runView) CanResume() bool {
	switch v.Status {
	case journal.Failed, journal.MayContinue, journal.Interrupted:
		return true
	}
	return false
}

// showRun shows what a run did.
func showRun(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	timeline, err := history.Of(ctx, r.Journal, r.PathValue("id"), r.owner())
	if err != nil {
		return nil, err
	}
	if r.Values {
		timeline.Show(r.Scrubber)
	}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	hideNames(&timeline.Run, sees)
	return &page{template: "run", title: timeline.ID, data: &runView{timeline, r.Flags, r.viewer.Acts}}, nil
}
