package console

import (
	"github.com/onecall-mcp/onecall/chain"
)

// resume continues a run as it is.
func resume(r *request) (*page, error) {
	if err := r.mustAct(); err != nil {
		return nil, err
	}
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	past, err := r.Journal.Read(r.Context(), r.PathValue("id"), r.owner())
	if err != nil {
		return nil, err
	}
	return r.start("Resume "+past.Row.ID, past.Row.ID, append(append([]byte(`{"resume":`), quoted(past.Row.ID)...), '}'), chain.Override{})
}
