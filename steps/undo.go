package steps

import "context"

type undoKey struct{}

// WithUndo returns the context of a call whose source may tell, by ReportUndo, how to undo it. report keeps the last that it is told, or
// returns why it cannot.
func WithUndo(ctx context.Context, report func(*Undo) error) context.Context {
	return context.WithValue(ctx, undoKey{}, report)
}

// ReportUndo tells how to undo the call of ctx, if it succeeds. Only the source knows that if the undo needs what was there before, which
// is not in the result. An undo of the step or of the configuration takes precedence. The arguments are taken as they are, without
// references, and are kept as the journal keeps secrets. A call that is not recorded drops them. A source reports before it changes
// anything, and changes nothing after an error, such as limit_exceeded.
func ReportUndo(ctx context.Context, u *Undo) error {
	if report, ok := ctx.Value(undoKey{}).(func(*Undo) error); ok {
		return report(u)
	}
	return nil
}
