package steps

import "context"

type undoKey struct{}

// WithUndo returns the context of a call whose source may tell, by ReportUndo, how to undo it. report keeps the last that it is told.
func WithUndo(ctx context.Context, report func(*Undo)) context.Context {
	return context.WithValue(ctx, undoKey{}, report)
}

// ReportUndo tells how to undo the call of ctx, if it succeeds. Only the source knows that if the undo needs what was there before, which is
// not in the result. An undo of the step or of the configuration takes precedence. The arguments are taken as they are, without references,
// and are kept as the journal keeps secrets. A call that is not recorded drops them.
func ReportUndo(ctx context.Context, u *Undo) {
	if report, ok := ctx.Value(undoKey{}).(func(*Undo)); ok {
		report(u)
	}
}
