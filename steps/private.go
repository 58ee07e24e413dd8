package steps

import "context"

// privateKey marks a context as private for one source, whose name is folded.
type privateKey struct{ source string }

// WithPrivateCalls returns a context in which calls of a source's functions belong to one caller, such as calls in a client's own session.
// The call cache neither answers nor stores them.
func WithPrivateCalls(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, privateKey{FoldName(source)}, true)
}

// IsPrivate returns a function that reports whether a context comes from WithPrivateCalls for this source.
func IsPrivate(source string) func(context.Context) bool {
	var key any = privateKey{FoldName(source)} // made once, so that calls do not allocate it
	return func(ctx context.Context) bool { return ctx.Value(key) != nil }
}
