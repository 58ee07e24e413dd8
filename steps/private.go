package steps

import "context"

type privateKey struct{}

// private are the sources whose calls are private, the last one first.
type private struct {
	source string // folded
	more   *private
}

// Private gives a context in which calls of a source's functions are one caller's own, such as those in a session that
// belongs to a client: the call cache neither answers nor keeps them.
func Private(ctx context.Context, source string) context.Context {
	before, _ := ctx.Value(privateKey{}).(*private)
	folded := FoldName(source)
	if before.has(folded) {
		return ctx
	}
	return context.WithValue(ctx, privateKey{}, &private{folded, before})
}

// IsPrivate tells whether ctx is one that Private has given for the source, whose name is as FoldName gives it.
func IsPrivate(ctx context.Context, folded string) bool {
	p, _ := ctx.Value(privateKey{}).(*private)
	return p.has(folded)
}

func (p *private) has(folded string) bool {
	for ; p != nil; p = p.more {
		if p.source == folded {
			return true
		}
	}
	return false
}
