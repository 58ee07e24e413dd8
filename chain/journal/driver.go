package journal

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Driver keeps runs. Package journaltest has the tests that each driver passes. Its methods may be called by many goroutines at
// once, and give ErrNotFound and ErrBusy, or an error of their own where they could not do their work: then nothing of it is
// done.
type Driver interface {
	// Write carries out writes in their order, in one transaction: when it returns they survive a loss of power. It gives for
	// each whether it was refused, and nothing of it done, because somebody else has taken the run over, or because a caller's
	// new run has the key of another.
	Write(ctx context.Context, list []Write) (refused []bool, err error)
	// Take takes the lease of a run of a caller (nil: of any), which raises its number, and gives all that is known of it.
	// ErrBusy: somebody who lives has it. The lease lives as long as the driver is open and its process lives; Write.Release gives it back.
	Take(ctx context.Context, id string, caller *string) (*Record, error)
	// Load gives all that is known of a run, whoever has its lease.
	Load(ctx context.Context, id string) (*Record, error)
	// Find gives the id of the run of a caller with a key, or of the youngest whose id begins with prefix where key is "".
	Find(ctx context.Context, caller, key, prefix string) (id string, err error)
	// List gives rows, the youngest first.
	List(ctx context.Context, f *Filter) ([]Row, error)
	// Days gives the sums of days, in no order.
	Days(ctx context.Context, f *Filter) ([]Day, error)
	// Expire forgets runs that have expired at a time, and days before another.
	Expire(ctx context.Context, at, days time.Time) error
	// Check writes something that tells nothing, and fails as Write would.
	Check(ctx context.Context) error
	// Close gives back all leases.
	Close() error
}

// Errors of drivers.
var (
	ErrNotFound = errors.New("journal: there is no such run")
	ErrBusy     = errors.New("journal: the run goes on")
)

// Status is how a run stands.
type Status string

// The statuses.
const (
	Running Status = "running"
	OK      Status = "ok"
	Failed  Status = "failed"
	Waiting Status = "waiting" // for approval
	Undone  Status = "undone"

	// Interrupted is a run under way whose process has ended: a resume takes it over. It is never written; drivers give it for a run
	// that is Running and whose lease nobody has who lives.
	Interrupted Status = "interrupted"
)

// Row is what is known of a run without its events.
type Row struct {
	ID        string     `json:"id"`
	Caller    string     `json:"caller"`         // who may see it, beside admins
	Key       string     `json:"key,omitzero"`   // with its scope, see CallersKey
	Chain     string     `json:"chain,omitzero"` // its name
	Hash      string     `json:"hash,omitzero"`  // of its plan
	Functions []string   `json:"functions,omitzero"`
	Status    Status     `json:"status"`
	Code      fault.Code `json:"code,omitzero"`

	Began   time.Time `json:"began"`
	Last    time.Time `json:"last"`    // when it did something, last
	Expires time.Time `json:"expires"` // when it is forgotten

	Steps  int           `json:"steps"`           // of its outermost chain
	Calls  int           `json:"calls"`           // that were made
	Reused int           `json:"reused,omitzero"` // that were taken from the journal instead
	Writes int           `json:"writes,omitzero"` // of the calls
	Took   time.Duration `json:"took"`            // all its resumes together
	Tokens int           `json:"tokens"`          // of its answers
	Kept   int           `json:"kept"`            // of results that no answer held, estimated

	Lease int64 `json:"lease"` // how often it was taken, from 1
}

// Segment is a run's events from number First on. Results and Kept are encrypted; Results goes first.
type Segment struct {
	Lease   int64
	First   int
	Events  []byte
	Results []byte
	Kept    []byte
}

// Write is one change of a run: of its row, and one more segment.
type Write struct {
	ID    string // of the run
	Lease int64  // of who writes; the write is refused if it is not the run's any more, but for Late
	New   bool   // the run is added, and the lease is held from now on
	Late  bool   // the write tells how calls ended and what answers cost, and is taken whoever has the lease; it has no Row and drops nothing

	Row          *Row     // takes the place of the run's row; nil: the row stays
	Segment      *Segment // is added; nil: none
	Tokens, Kept int      // are added to the row's
	DropResults  bool     // Results of all segments go
	Release      bool     // the lease is given back, if it is still the run's
	Days         []Day    // are added to the sums
}

// Record is a run with its segments, in the order of their leases and first numbers.
type Record struct {
	Row      Row
	Segments []Segment
}

// Filter says which rows or days are meant; the zero value means all.
type Filter struct {
	Caller   *string // nil: of all callers
	Status   Status
	Function string // that a run called
	Chain    string
	Since    time.Time
	Until    time.Time // exclusive; zero: no bound
	Limit    int       // of rows; 0: no bound
}
