package ledger

import (
	"bytes"
	"slices"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// answerFields are the fields of a chain that say how it is named and answered, and not what it does.
var answerFields = []string{
	"key", "name", "description", "version", "$schema", "lite", "format", "verify", "budget", "trace", "dryRun", "async", "asyncAfterMs",
	"durable",
}

// checkAgain decides what a request with the key of a run that ended well asks for. The chain with which the run began or ended asks for
// its answer: checkAgain sets l.Resumption.Again and removes all fields from sent that are not about the answer, so that the run's own
// hold, with their corrections. Any other chain is refused, since the key is that of what was done. A request without steps, or with
// assume, corrects the run.
func (l *Ledger) checkAgain(past *journal.Past, sent *rawjson.Table, setsInput bool) *fault.Error {
	if l.Resumption.ByID || l.Resumption.Undo || past.Row.Status != journal.OK || !sent.Has("steps") || sent.Has("assume") {
		return nil
	}
	spelled := rawjson.NewTable(l.Spelling(rawjson.AppendObject(nil, sent.List)))
	if !sameChain(spelled, past.Chain, setsInput) && !sameChain(spelled, past.Events[0].Chain, setsInput) {
		return fault.New(fault.ResumeConflict, "the run with this key ended well with another chain: send that chain for its answer, or this one "+
			"with another key")
	}
	l.Resumption.Again = true
	for _, name := range sent.Names() {
		if !slices.Contains(answerFields, name) {
			sent.Remove(name)
		}
	}
	return nil
}

// sameChain reports whether a chain that was sent does what another one of the same spelling does. Input that the front end sets is part of
// the other's input.
func sameChain(sent *rawjson.Table, text []byte, setsInput bool) bool {
	other := rawjson.NewTable(text)
	for _, name := range slices.Concat(sent.Names(), other.Names()) {
		isSet := name == "input" && setsInput
		if slices.Contains(answerFields, name) || slices.Contains(facts.ResumeFields, name) || isSet {
			continue
		}
		if !bytes.Equal(canonical([]byte(sent.Get(name))), canonical([]byte(other.Get(name)))) {
			return false
		}
	}
	return true
}
