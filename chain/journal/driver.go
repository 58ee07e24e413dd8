package journal

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Driver stores runs. Package journaltest has the tests for drivers. The methods are safe for concurrent use. They return ErrNotFound,
// ErrBusy or errors of the driver; a method that returns an error has done nothing, unless only the confirmation of its commit was lost.
type Driver interface {
	// Write carries out writes in order, in one transaction. When it returns, they survive a loss of power. It reports which writes were
	// refused and changed nothing: another process has taken over the run, or the caller already has a run with the key of a new one.
	Write(ctx context.Context, list []Write) (refused []bool, err error)
	// Acquire takes the lease of a run of a caller (nil: of any), which increments Row.Lease, and returns the run. It fails with ErrBusy
	// if a live process has the lease. The lease ends with Write.Release, when the driver is closed, or with its process.
	Acquire(ctx context.Context, id string, caller *string) (*Record, error)
	// Load returns a run without its segments up to the one with this lease and first number; 0, 0: with all. Another process may hold the
	// run's lease.
	Load(ctx context.Context, id string, lease int64, first int) (*Record, error)
	// Version returns a text that changes when other processes write, at the latest before it is asked for again after that time, and that
	// may change otherwise, too. again 0: no other process writes, and version means nothing.
	Version(ctx context.Context) (version string, again time.Duration, err error)
	// LoadRow returns the row of a run, without its segments.
	LoadRow(ctx context.Context, id string) (*Row, error)
	// Find returns the id of a caller's run with a key, and when the run expires.
	Find(ctx context.Context, caller, key string) (id string, expires time.Time, err error)
	// List returns rows, newest first.
	List(ctx context.Context, f *Filter) ([]Row, error)
	// Parts counts the parts of runs. A run without parts has no entry.
	Parts(ctx context.Context, runs []string) (map[string]Parts, error)
	// Days returns the sums of days, in no particular order.
	Days(ctx context.Context, f *Filter) ([]Day, error)
	// States returns values of state that have not expired, ordered by space and name.
	States(ctx context.Context, f *StateFilter) ([]StateRow, error)
	// AwaitState waits until no write that changes a value of an owner is under way, not even one whose confirmation nobody awaits any more.
	AwaitState(ctx context.Context, owner string) error
	// RemoveStates removes the values of an owner in some spaces. Versions go on.
	RemoveStates(ctx context.Context, owner string, spaces []string) error
	// MarkState keeps a name without a value, which counts nothing, for ttl from now, or longer if it was to be kept longer.
	MarkState(ctx context.Context, key StateKey, ttl time.Duration) error
	// KeepState stores a value of no run, whose version is 0 and which counts nothing, for ttl from now; absent: only if there is none. It
	// reports whether it did. Such a value is alone in its space with others of its kind.
	KeepState(ctx context.Context, row *StateRow, ttl time.Duration, absent bool) (kept bool, err error)
	// Expire removes runs that expired before at, except those whose lease a live process has, days before days, and values of state that
	// have expired.
	Expire(ctx context.Context, at, days time.Time) error
	// Check makes a write without effect, which fails as Write would.
	Check(ctx context.Context) error
	// Verify reads the whole database, and fails if a part of it is damaged.
	Verify(ctx context.Context) error
	// Close releases all leases.
	Close() error
}

// Errors of drivers.
var (
	ErrNotFound = errors.New("journal: there is no such run")
	ErrBusy     = errors.New("journal: the run is still running")
)

// Status is the status of a run.
type Status string

// The statuses of runs.
const (
	Running Status = "running"
	OK      Status = "ok"
	Failed  Status = "failed"
	Waiting Status = "waiting" // the run waits for approval (Row.Code says so), or until its pauses are over
	Undone  Status = "undone"

	// MayContinue is a run whose waiting calls an operator has approved, and that was not resumed since.
	MayContinue Status = "approved"

	// Interrupted is a run whose process ended while it was running. It can be resumed. It is never written: drivers report it for a
	// Running run without a live lease, unless it is a batch.
	Interrupted Status = "interrupted"
)

// Parts counts the parts of a run by their status.
type Parts map[Status]int

// Total is the number of all parts.
func (p Parts) Total() (n int) {
	for _, count := range p {
		n += count
	}
	return n
}

// Segment has the events of a run from number First on. Results and Retained are encrypted; Results is dropped first.
type Segment struct {
	Lease    int64
	First    int
	Events   []byte
	Results  []byte
	Retained []byte
}

// Write is one change of a run: of its row, its segments, its lease and the sums that it counts in.
type Write struct {
	ID    string // the id of the run
	Lease int64  // the lease of the writer; the write is refused if the run has another one, unless Late is set
	New   bool   // add the run, and take its lease
	// Late: the write says how calls ended and what answers cost, and is accepted without the lease. It must not set Row or DropResults.
	Late bool
	// Repeated: the write was tried before, and may have been carried out. Its segment is then added and counted once.
	Repeated bool

	Row            *Row     // replaces the run's row; nil: no change
	Segment        *Segment // the segment to add; nil: none
	Tokens, Stored int      // the tokens to add to the row's
	DropResults    bool     // drop the Results of all segments
	Release        bool     // release the lease, if the run still has it
	Days           []Day    // the sums to add to those of the days

	// State changes a value of state; nil: none is changed. At most one write of a list has it, and it does not go with Late.
	State *StateWrite
}

// Record is a run with its segments, ordered by lease and first number. Written is how many segments had been added to it, counted in
// the transactions that added them: if Segments has fewer, the record is damaged. It is negative if the run began with a version that
// neither counted segments nor wrote headers.
type Record struct {
	Row      Row
	Segments []Segment
	Written  int
}

// Filter selects rows or days. The zero value selects all. Only Callers, Function, Functions, Chains, Since and Until
// apply to days.
type Filter struct {
	IDPrefix  string     // only runs whose id begins with it
	Callers   []string   // only runs and days of one of these; empty: any
	Scope     *string    // only runs that began in this scope (Start.Scope), and days of any; nil: any
	Parent    *string    // "": runs without a parent; nil: any
	Status    Status     // "": any
	Code      fault.Code // "": any; with Status Waiting, fault.ApprovalRequired selects the runs that wait for approval
	NotOK     bool       // leave out runs with status OK
	AtWorkers bool       // only runs that workers may have: handed over or not known (Row.HandoverLease), not ended, no approval awaited
	Function  string     // only runs with this function in Row.Functions, and days of it; "": any
	Functions []string   // only days of one of these functions; empty: any. Rows are not selected by it
	Chains    []string   // only runs and days of chains with one of these names; empty: any
	Since     time.Time  // only runs that began at this time or later, and days from its day on; zero: no limit
	Until     time.Time  // only runs that began before this time, and days up to its day; zero: no limit
	Before    *Position  // only runs that a list has after this position; nil: from the newest on
	Limit     int        // the maximum number of rows; 0: no limit
}

// Position is that of a run in a list, which it keeps whatever else is listed. If the run has expired, the list goes on with the runs that
// began at the same time.
type Position struct {
	Began time.Time
	ID    string
}

// Position returns the position of the run in lists.
func (r *Row) Position() *Position { return &Position{r.Began, r.ID} }
