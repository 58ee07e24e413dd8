package steps

import "context"

// privateKey marks a context for one source, whose name is folded.
type privateKey struct{ source string }

// Private gives a context in which calls of a source's functions are one caller's own, such as those in a session that
// belongs to a client: the call cache neither answers nor keeps them.
func Private(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, privateKey{FoldName(source)}, true)
}

// IsPrivate gives what reports whether a context is one that Private has given for the source.
func IsPrivate(source string) func(context.Context) bool {
	var key any = privateKey{FoldName(source)} // made once, as a call must not allocate for it
	return func(ctx context.Context) bool { return ctx.Value(key) != nil }
}
