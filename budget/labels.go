package budget

import (
	"context"
	"errors"
	"strings"
)

// A stored owner has the labels of its value after its rights. Those of more than maxLabels bytes have no room there: anyLabels stands for
// labels that are not known.
const (
	labelsMark = "l="
	maxLabels  = 100
	anyLabels  = "*"
)

// WithLabels returns the same Results for values with labels: a text without colons, which Labels returns again. "": they have none.
func (r *Results) WithLabels(text string) *Results {
	if text == r.labels {
		return r
	}
	clone := *r
	clone.labels = text
	return &clone
}

// Labels returns the labels of a result of its owner, without reading the value or extending its lifetime. known is false if they were too
// many to be kept with it. A token that is not a live token of this owner is token_expired, as with Value.
func (r *Results) Labels(ctx context.Context, owner, token string) (text string, known bool, err error) {
	if !strings.HasPrefix(token, TokenPrefix) {
		return "", false, tokenExpired()
	}
	stored, found := "", errors.New("found")
	_, err = r.driver.Get(ctx, keyOf(token), func(e Entry, _ int64) error {
		if !r.rights.mayRead(e.Owner, owner) || !r.o.Now().Before(r.expiry(e)) {
			return ErrNotFound
		}
		stored = e.Owner
		return found
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return "", false, tokenExpired()
	case !errors.Is(err, found):
		return "", false, storeFault(err, "read")
	}
	text = storedLabels(stored)
	return text, text != anyLabels, nil
}

// storedLabels returns the labels of a stored owner.
func storedLabels(stored string) string {
	for _, part := range strings.Split(stored, ":") {
		if text, ok := strings.CutPrefix(part, labelsMark); ok {
			return text
		}
	}
	return ""
}

// withMarks adds to a stored owner, which has its rights or none, the labels of these Results and a mark ("": none).
func (r *Results) withMarks(stored, mark string) string {
	if r.labels == "" && mark == "" {
		return stored
	}
	stored += strings.Repeat(":", 2-strings.Count(stored, ":"))
	if text := r.labels; text != "" {
		if len(text) > maxLabels || strings.Contains(text, ":") {
			text = anyLabels
		}
		stored += ":" + labelsMark + text
	}
	return stored + mark
}
