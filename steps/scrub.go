package steps

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// minSecret is the least length, in bytes, of a secret that is looked for: shorter ones are found in data by chance.
const minSecret = 6

// scrubbed stands where a secret was.
const scrubbed = "[secret]"

// Scrubber takes the secrets of a configuration out of what leaves onecall. nil takes out nothing. It may be used by many
// goroutines.
type Scrubber struct{ needles [][]byte }

// NewScrubber looks for these texts, as they are and as JSON strings, URLs and base64 write them. Texts of less than 6
// bytes are not looked for.
func NewScrubber(secrets []string) *Scrubber {
	found := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		quoted, _ := json.Marshal(secret) // of a string: never fails
		for _, form := range []string{
			secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret),
			base64.StdEncoding.EncodeToString([]byte(secret)),
		} {
			found[form] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	s := &Scrubber{}
	for form := range found {
		s.needles = append(s.needles, []byte(form))
	}
	// The longest first: a secret may hold another.
	slices.SortFunc(s.needles, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	return s
}

// Bytes gives text without the secrets; it is text itself where there are none.
func (s *Scrubber) Bytes(text []byte) []byte {
	if s == nil {
		return text
	}
	for _, needle := range s.needles {
		if bytes.Contains(text, needle) {
			text = bytes.ReplaceAll(text, needle, []byte(scrubbed))
		}
	}
	return text
}

// Text is Bytes for a string.
func (s *Scrubber) Text(text string) string {
	if s == nil {
		return text
	}
	for _, needle := range s.needles {
		text = strings.ReplaceAll(text, string(needle), scrubbed)
	}
	return text
}

// Fault gives f without the secrets; it is f itself where there are none.
func (s *Scrubber) Fault(f *fault.Error) *fault.Error {
	if s == nil || f == nil {
		return f
	}
	c := *f
	c.Message, c.Body = s.Text(f.Message), s.Bytes(f.Body)
	return &c
}

// Scrub returns a clone whose results and errors are without the secrets that s looks for.
func (r *Registry) Scrub(s *Scrubber) *Registry {
	if s == nil {
		return r
	}
	return r.Wrap(func(_ *Spec, call Call) Call {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			result, err := call(ctx, args)
			if err == nil {
				return s.Bytes(result), nil
			}
			if f, ok := fault.As(err); ok {
				return nil, s.Fault(f)
			}
			return nil, err
		}
	})
}
