package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/clients"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/lock"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// lockAnswer is the answer of lock --json.
type lockAnswer struct {
	File      string         `json:"file"`
	All       bool           `json:"all"`
	Functions int            `json:"functions"` // in the lock now
	Added     []string       `json:"added,omitempty"`
	Now       []functionNow  `json:"now,omitempty"` // the changed functions, and with --accept and --dry-run the added ones, to be read
	Changed   []lockedChange `json:"changed,omitempty"`
	Removed   []string       `json:"removed,omitempty"`
	Kept      []string       `json:"kept,omitempty"`    // sources that are unavailable: the lock says of their functions what it said
	LeftOut   []string       `json:"leftOut,omitempty"` // sources whose lists each caller has for itself
}

// functionNow is a function as models read it.
type functionNow struct {
	Function    string `json:"fn"`
	Effect      string `json:"effect"`
	Signature   string `json:"signature"`
	Description string `json:"description,omitempty"`
}

type lockedChange struct {
	Function string       `json:"fn"`
	Changes  []changeLine `json:"changes"`
}

// changeLine is a change in an answer.
type changeLine struct {
	Function string `json:"fn,omitempty"`
	Rule     string `json:"rule"`
	At       string `json:"at,omitempty"`
	Step     string `json:"step,omitempty"`
	Message  string `json:"message"`
}

func newLockCommand(c *cli) *cobra.Command {
	var all, asJSON, dryRun bool
	var accept []string
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Remember the functions that saved chains depend on",
		Long: "Write onecall.lock beside the configuration: the schemas, the effect and the digest of the description of each function\n" +
			"that saved chains and settings of approval name, as they are now; with --all, of every function. The file belongs into\n" +
			"version control. onecall check compares the functions with it later, and says which saved chains a change breaks. With\n" +
			"toolLock: enforce in the configuration, a function that differs from the lock is not served.\n\n" +
			"Without flags, lock accepts all changes and prints them; --dry-run only prints them. --accept takes only the function of\n" +
			"that name into the lock, as it is now, or out of it, if it is gone. What is printed of a changed function is how it is called\n" +
			"now, and its description, which models read. A lock that was made with --all stays one of all functions.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && len(accept) > 0 {
				return usageErrorf("--all and --accept exclude each other")
			}
			return c.writeLock(cmd.Context(), all, accept, dryRun, asJSON)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "name every function, not only those of saved chains and approvals")
	cmd.Flags().StringArrayVar(&accept, "accept", nil, "accept the change of one function, by its `name`; may be given several times")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and write nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

// lockPath returns the path of the configuration's lock.
func (c *cli) lockPath() (string, error) {
	path, f := config.Find(c.configPath)
	if f != nil {
		return "", opError{f}
	}
	return app.LockFile(path), nil
}

// readLock reads the configuration's lock; nil: there is none. A lock that cannot be used is told, with the status of a configuration.
func (c *cli) readLock(path string) (*lock.File, error) {
	l, f := app.ReadLock(path)
	if f != nil {
		c.noticef("onecall: %s", textfile.Printable(f.Message))
		return nil, exitError(exitConfiguration)
	}
	return l, nil
}

func (c *cli) writeLock(ctx context.Context, all bool, accept []string, dryRun, asJSON bool) (err error) {
	path, err := c.lockPath()
	if err != nil {
		return err
	}
	former, err := c.readLock(path)
	if err != nil {
		return err
	}
	a, err := c.open(ctx, app.Options{Unlocked: true})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	line := c.startProgress()
	now := a.Lockable(ctx)
	line.stop()
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	var before lock.File
	if former != nil {
		if f := a.LockConflict(path, former); f != nil {
			c.noticef("onecall: %s", textfile.Printable(f.Message))
			return exitError(exitConfiguration)
		}
		before = *former
	}
	next := &lock.File{All: before.All || all, Functions: slices.Clone(before.Functions)}
	if len(accept) > 0 {
		if f := acceptInto(next, now, accept, path); f != nil {
			c.noticef("onecall: %s", textfile.Printable(f.Message))
			return exitError(f.Code.Exit())
		}
	} else {
		renewLock(next, now)
	}
	answer := compareLocks(&before, next)
	answer.File, answer.Kept, answer.LeftOut = path, now.Down, now.Personal
	answer.describe(now, dryRun || len(accept) > 0)
	if text := next.Text(); !dryRun && (former == nil || !bytes.Equal(text, former.Text())) {
		if err := clients.WriteFile(path, text, 0o644); err != nil {
			return app.Failure{Err: fmt.Errorf("%s cannot be written: %w", path, textfile.Cause(err))}
		}
	}
	return c.showLock(answer, asJSON)
}

// acceptInto takes functions into a lock as they are now, or out of it, if they are gone.
func acceptInto(l *lock.File, now *app.Lockable, names []string, path string) *fault.Error {
	for _, name := range names {
		switch fn := now.Functions[name]; {
		case fn != nil:
			l.Set(*fn)
		case now.IsDown(name):
			return fault.New(fault.Unavailable, "%s cannot be accepted: its source is unavailable", fault.Quote(name))
		case l.Find(name) != nil:
			l.Remove(name)
		default:
			f := fault.New(fault.UnknownFunction, "there is no function %s, and %s names none", fault.Quote(fault.Clip(name, 100)), path)
			known := make([]string, 0, len(now.Functions))
			for other := range now.Functions {
				known = append(known, other)
			}
			if near := fault.Nearest(name, known, 3); len(near) > 0 {
				f.Message += ": did you mean " + strings.Join(near, ", ") + "?"
			}
			return f
		}
	}
	return nil
}

// renewLock makes a lock say what the functions are now. It says what it said of functions whose source is unavailable.
func renewLock(l *lock.File, now *app.Lockable) {
	l.Functions = slices.DeleteFunc(l.Functions, func(f lock.Function) bool { return !now.Locks(f.Name, l.All) && !now.IsDown(f.Name) })
	for name, fn := range now.Functions {
		if now.Locks(name, l.All) {
			l.Set(*fn)
		}
	}
}

// compareLocks says what has changed from one lock to the next.
func compareLocks(before, next *lock.File) *lockAnswer {
	answer := &lockAnswer{All: next.All, Functions: len(next.Functions)}
	for i := range next.Functions {
		fn := &next.Functions[i]
		was := before.Find(fn.Name)
		if was == nil {
			answer.Added = append(answer.Added, fn.Name)
			continue
		}
		if changes := lock.Changes(was, fn); len(changes) > 0 {
			one := lockedChange{Function: fn.Name}
			for j := range changes {
				one.Changes = append(one.Changes, lineOf(&changes[j], "", false))
			}
			answer.Changed = append(answer.Changed, one)
		}
	}
	for i := range before.Functions {
		if name := before.Functions[i].Name; next.Find(name) == nil {
			answer.Removed = append(answer.Removed, name)
		}
	}
	return answer
}

// describe adds the functions that a person must read: the changed ones, and the added ones too if there are few.
func (l *lockAnswer) describe(now *app.Lockable, added bool) {
	var names []string
	for _, one := range l.Changed {
		names = append(names, one.Function)
	}
	if added {
		names = append(names, l.Added...)
	}
	slices.Sort(names)
	for _, name := range names {
		if spec := now.Specs[name]; spec != nil {
			l.Now = append(l.Now, functionNow{name, spec.Effect.String(), schema.Signature(name, spec.Input, ": ", spec.Output), spec.Description})
		}
	}
}

// lineOf returns a change as answers show it.
func lineOf(change *lock.Change, step string, named bool) changeLine {
	line := changeLine{Rule: string(change.Rule), At: change.At(), Step: step, Message: change.Text}
	if named {
		line.Function = change.Function
	}
	return line
}

// showLock writes the answer of lock. A source that is unavailable is an error.
func (c *cli) showLock(answer *lockAnswer, asJSON bool) (err error) {
	if asJSON {
		err = c.writeValue(answer)
	} else {
		err = c.writeText([]byte(answer.text()))
	}
	if err != nil {
		return err
	}
	if len(answer.LeftOut) > 0 {
		c.noticef("left out: %s, whose functions each caller lists with a credential of its own", strings.Join(answer.LeftOut, ", "))
	}
	if len(answer.Kept) > 0 {
		c.noticef("onecall: unavailable: %s; the lock says of their functions what it said before", strings.Join(answer.Kept, ", "))
		return exitError(fault.Unavailable.Exit())
	}
	return nil
}

// text returns the answer for a person: a line for each function that is new, changed or gone.
func (l *lockAnswer) text() string {
	var b strings.Builder
	describe := func(name string) {
		for i := range l.Now {
			if fn := &l.Now[i]; fn.Function == name {
				fmt.Fprintf(&b, "    %s %s\n", fn.Effect, textfile.Printable(fn.Signature))
				for line := range strings.Lines(fn.Description) {
					fmt.Fprintf(&b, "    %s\n", textfile.Printable(strings.TrimRight(line, "\r\n")))
				}
			}
		}
	}
	for _, name := range l.Added {
		fmt.Fprintf(&b, "+ %s\n", textfile.Printable(name))
		describe(name)
	}
	for _, one := range l.Changed {
		for _, change := range one.Changes {
			fmt.Fprintf(&b, "~ %s: %s\n", textfile.Printable(one.Function), textfile.Printable(change.Message))
		}
		describe(one.Function)
	}
	for _, name := range l.Removed {
		fmt.Fprintf(&b, "- %s\n", textfile.Printable(name))
	}
	which := ""
	if l.All {
		which = ", all that there are"
	}
	fmt.Fprintf(&b, "%s: %s%s\n", textfile.Printable(l.File), plural(int64(l.Functions), "function"), which)
	return b.String()
}
