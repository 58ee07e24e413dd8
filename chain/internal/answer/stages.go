package answer

import (
	"context"
	"math"

	"github.com/onecall-mcp/onecall/fault"
)

// A stage is what an answer gives up next if it does not fit. The stages come in this order, and what was given up stays so.
type stage int

const (
	wholeAnswer     stage = iota // nothing is given up
	traceDetails                 // arguments and results in the trace
	stepsOK                      // steps that are ok
	requestWarnings              // the warnings of the request
	inputSchema                  // the schema of the failed function, but for its signature
	signatures                   // all of it
	availableNames               // available and the body of a failed call; messages of more than longMessage characters are cut
	resultForProbe               // the result, for a probe with as much of a preview as fits
	waitingCalls                 // the calls that wait for approval, but for their number
	elementsBut100               // failed elements, but for 100
	elementsBut10                // but for 10
	allSteps                     // the trace
	longMessages                 // messages of more than shortMessage characters are cut
	someFaults                   // faults, as many as do not fit
	callerWarnings               // the front end's warnings
	allElements                  // failed elements
	someWrites                   // entries of writes, as many as do not fit
	shortMessages                // messages of more than minMessage characters are cut; nearest
	moreWrites                   // further entries of writes
	moreFaults                   // further faults
	placeOfError                 // the place and the function of the error, and the id of the run
	partOfMessage                // of the message, what does not fit
	longLabel                    // the label, but for shortLabel characters
	allOfResult                  // the result, even as a probe
	moreOfMessage                // more of the message
	allOfLabel                   // the label
	lastStage       = allOfLabel
)

const (
	longMessage  = 2000 // characters
	shortMessage = 300
	minMessage   = 60
	shortLabel   = 24
	smallResult  = 60 // bytes; a probe is no shorter
)

// omissions says what an answer leaves out: what its stage and those before it give up, and how much of that.
type omissions struct {
	stage   stage
	faults  int // how many faults are shown
	writes  int // how many entries for writes are shown
	message int // the maximum characters of the message, where its stage has measured it; -1: it has not

	probe             []byte // replaces the result
	resultLost        bool   // probe is a preview of a result that is not stored
	besideResult      bool   // trace and warnings are left out, for a result that is lost
	withoutCallersOwn bool   // the front end's warnings are left out before their stage, for the token of a probe
	waitingToken      string // the continuation token of the list of calls that wait; "": the list is shown, or could not be stored

	storeFault *fault.Error // why the result could not be stored; nil: it was stored, or not tried
}

// omitNothing returns omissions that leave out nothing.
func (b *builder) omitNothing() *omissions {
	return &omissions{faults: len(b.Faults), writes: math.MaxInt, message: -1}
}

// giveUp gives up what the next stage says.
func (b *builder) giveUp(ctx context.Context, o *omissions) {
	o.stage++
	switch o.stage {
	case resultForProbe:
		b.probeResult(ctx, o)
	case waitingCalls:
		b.countWaiting(ctx, o)
	case someFaults, moreFaults:
		b.fewerFaults(o)
	case someWrites, moreWrites:
		b.fewerWrites(o)
	case partOfMessage, moreOfMessage:
		b.shorterMessage(o)
	}
}

// gaveUp reports whether a stage has been reached.
func (o *omissions) gaveUp(s stage) bool { return o.stage >= s }

func (o *omissions) noWarnings() bool { return o.gaveUp(requestWarnings) || o.besideResult }

func (o *omissions) noCallerWarnings() bool { return o.gaveUp(callerWarnings) || o.withoutCallersOwn }

func (o *omissions) noTrace() bool { return o.gaveUp(allSteps) || o.besideResult }

// schema is how much of the failed function's schema may be shown.
func (o *omissions) schema() schemaLevel {
	switch {
	case o.gaveUp(signatures):
		return schemaNone
	case o.gaveUp(inputSchema):
		return schemaSignature
	}
	return schemaWhole
}

// elements is how many failed elements are shown.
func (o *omissions) elements() int {
	switch {
	case o.gaveUp(allElements):
		return 0
	case o.gaveUp(elementsBut10):
		return 10
	case o.gaveUp(elementsBut100):
		return 100
	}
	return math.MaxInt
}

// maxMessage is the maximum characters of a message.
func (o *omissions) maxMessage() int {
	switch {
	case o.message >= 0:
		return o.message
	case o.gaveUp(shortMessages):
		return minMessage
	case o.gaveUp(longMessages):
		return shortMessage
	case o.gaveUp(availableNames):
		return longMessage
	}
	return math.MaxInt
}

// label is the maximum characters of the front end's label.
func (o *omissions) label() int {
	switch {
	case o.gaveUp(allOfLabel):
		return 0
	case o.gaveUp(longLabel):
		return shortLabel
	}
	return math.MaxInt
}

type schemaLevel int

const (
	schemaWhole schemaLevel = iota
	schemaSignature
	schemaNone
)
