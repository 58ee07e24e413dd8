package budget

import (
	"context"
	"strings"
	"time"
)

// shownMark ends the stored owner of a value that its owner has been shown completely.
const shownMark = ":shown"

// KeepShown is Keep for a value that its owner is shown completely, so that a later answer can refer to it (see Shown).
func (r *Results) KeepShown(ctx context.Context, owner string, value []byte) (token string, err error) {
	if token, err = newToken(); err != nil {
		return "", err
	}
	return token, r.put(ctx, token, value, r.withMarks(r.rights.storedOwner(owner), shownMark))
}

// Shown is a value that its owner was shown completely.
type Shown struct {
	Value []byte // must not be changed
	At    time.Time
	Ends  bool // its lifetime can no longer be extended to that of a new result
}

// Shown returns a value that was kept by KeepShown, and extends its lifetime as Value does. Any other token is token_expired.
func (r *Results) Shown(ctx context.Context, owner, token string) (Shown, error) {
	e, lifetime, err := r.use(ctx, owner, token)
	if err == nil && !strings.HasSuffix(e.Owner, shownMark) {
		err = tokenExpired()
	}
	if err != nil {
		return Shown{}, err
	}
	return Shown{Value: e.Value, At: e.Created, Ends: lifetime < r.o.TTL}, nil
}
