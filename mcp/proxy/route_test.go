package proxy

import (
	"strings"
	"testing"
)

func TestMatchesTemplate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		template, uri string
		want          bool
	}{
		{"a://{id}/x", "a://7/x", true}, {"a://{id}/x", "a://7/y", false}, {"a://{+path}", "a://b/c/d", true}, {"a://{id}", "a://b/c", false},
		{"a://{", "a://b", false}, {"a://x{?q,r}", "a://x?q=1&r=2", true}, {strings.Repeat("{a}", maxTemplate), "a", false},
	} {
		if got := matchesTemplate(test.template, test.uri); got != test.want {
			t.Errorf("%.40s matches %s: %t, want %t", test.template, test.uri, got, test.want)
		}
	}
}
