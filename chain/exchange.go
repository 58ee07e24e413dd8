package chain

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// exchange is one request of one caller and its answer: the engine's options, what the caller and the request make of them, and the
// warnings so far.
type exchange struct {
	o        *Options
	provider steps.Provider
	view     *steps.Registry // what the provider gives once no name has to wait
	owner    string
	results  *budget.Results // of the owner; nil: there is no store
	label    string
	line     int    // of a file, in which the request begins
	chain    string // its name, where the request has none
	id       string // that a failure names; "": none
	override Override
	progress func(Progress)
	log      func(LogMessage)
	started  time.Time

	most        int // tokens that an answer may have, whatever the request says; 0: no bound
	meter       *budget.Meter
	maxSteps    int
	maxCalls    int
	maxDuration time.Duration
	lite        bool
	trace       string // none, summary, full
	verify      bool   // no lean form
	single      *Call  // the one call that is made; nil: a chain or a fetch
	warnings    []*fault.Error
	notices     []*fault.Error // of the front end, told before the warnings
	writes      writeLog
	teaching    map[*steps.Entry]*fault.Error // the fault of a chain that has the signature of a function
	request     *request                      // that is compiled; nil: none
	observation *observation                  // nil: nobody observes
	record      *journal.Run                  // nil: nothing is remembered
	own         *journal.Journal              // of this run alone; nil: it has the engine's, or none
	taken       *journal.Past                 // the run that is resumed, until it has a record
	looked      *journal.Past                 // the run that would be resumed, of a dry run: its lease is not taken
	resume      string                        // names the run to whoever goes on with it; "": nobody can
	cost        int                           // tokens of the answer; 0: nobody has counted them
	ran         *run                          // nil: nothing did
	approves    string                        // approves the calls that wait for approval; "": none do
	question    *Question                     // about these calls; nil: there is none
	decision    *Decision                     // that the request comes with; nil: none
	said        resumption
	waits       *waiting // of a rehearsal: what waits for approval
	ask         func(context.Context, []ApprovalCall) (bool, error)

	pace      pace
	computing admit.Request
	holding
}

func (e *Engine) newExchange(c *Caller) *exchange {
	if c == nil {
		c = &Caller{}
	}
	s := &exchange{o: &e.o, provider: c.Functions, owner: c.ID, label: c.Label, line: c.Line, chain: c.Chain, id: c.Run, override: c.Override, progress: c.Progress, log: c.Log, notices: c.Warnings, ask: c.Approve, decision: c.Decision, started: time.Now(),
		maxSteps: e.o.MaxSteps, maxCalls: e.o.MaxCalls, maxDuration: e.o.MaxDuration}
	if e.o.Results != nil {
		s.results = e.o.Results.With(c.Rights)
	}
	s.admission, s.caller, s.all = e.o.Admission, c.ID, e.o.MaxRunningBytes
	s.computing.Caller, s.computing.Slots, s.computing.Memory = c.ID, e.o.Admission, s
	if s.provider == nil {
		s.provider = e.o.Functions
	}
	if e.o.Observer != nil {
		s.observation = &observation{observer: e.o.Observer}
	}
	s.most = e.o.MaxTotalTokens
	if n := c.MaxTotalTokens; n > 0 {
		n = max(n, budget.Least(e.o.Counter))
		s.most = min(n, cmp.Or(s.most, n))
	}
	_ = s.apply(nil, nil, "")
	return s
}

// apply sets the bounds of what is done and the form of the answer: as the request says, which can only lower the bounds of the
// server and of the caller, and as the override says over both. A token budget that is too low for any answer is a fault.
func (s *exchange) apply(b *budgetRequest, lite *bool, trace string) (low *fault.Error) {
	tokens := s.override.MaxTotalTokens
	if b != nil {
		if tokens == 0 && b.MaxTotalTokens != nil {
			tokens = *b.MaxTotalTokens
		}
		lower(&s.maxSteps, b.MaxSteps)
		lower(&s.maxCalls, b.MaxCalls)
		if ms := b.MaxDurationMs; ms != nil {
			s.maxDuration = min(s.maxDuration, time.Duration(*ms)*time.Millisecond)
		}
	}
	if least := budget.Least(s.o.Counter); tokens != 0 && tokens < least {
		low = fault.New(fault.BudgetTooSmall, "an answer needs room for %d tokens at least: raise maxTotalTokens from %d", least, tokens).Under("/budget/maxTotalTokens")
		if tokens = 0; s.override.MaxTotalTokens > 0 {
			tokens = least
		}
	}
	if tokens == 0 || s.most > 0 && s.most < tokens {
		tokens = s.most
	}
	if s.meter == nil || s.meter.Limit() != tokens {
		s.meter = budget.NewMeter(s.o.Counter, tokens)
	}
	if s.lite = s.o.Lite; s.override.Lite != nil {
		s.lite = *s.override.Lite
	} else if lite != nil {
		s.lite = *lite
	}
	switch s.trace = cmp.Or(s.override.Trace, trace); {
	case s.trace != "":
	case s.lite:
		s.trace = "none"
	default:
		s.trace = "summary"
	}
	return low
}

func lower(limit *int, to *int) {
	if to != nil {
		*limit = min(*limit, *to)
	}
}

// warn takes note of something that looks like a mistake.
func (s *exchange) warn(w *fault.Error) {
	if len(s.warnings) < maxWarnings {
		s.warnings = append(s.warnings, s.placed(w))
	}
}

// unwarn drops the warnings that would send to interpolation a text that a fault says is an expression.
func (s *exchange) unwarn(faults []*fault.Error) {
	s.warnings = slices.DeleteFunc(s.warnings, func(w *fault.Error) bool {
		return w.Code == fault.BadReference && slices.ContainsFunc(faults, func(f *fault.Error) bool {
			return f.Code == fault.BadExpression && s.placed(f).At == w.At
		})
	})
}

// idOf is the id of a step of the outermost chain; "": it has none.
func (s *exchange) idOf(step int) string {
	if s.request == nil || step < 0 || step >= len(s.request.Steps) {
		return ""
	}
	return s.request.Steps[step].ID
}

func itoa(n int) string { return strconv.Itoa(n) }

// appendString writes a text as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, text string) []byte {
	quoted, _ := jsontext.AppendQuote(dst, text) // the error tells of invalid UTF-8, which is replaced
	return quoted
}

// pointerTokens splits a JSON Pointer into its unescaped tokens.
func pointerTokens(at string) []string {
	if at == "" {
		return nil
	}
	tokens := strings.Split(at[1:], "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}
