package credential

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// rules are those of the tests: one source needs a tenant, another a token and a tenant.
var rules = []Rule{{Name: "tickets", Pass: []string{"Authorization", "X-Tenant"}}, {Name: "inventory", Pass: []string{"x-tenant"}}}

// header returns a header of names and values, in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// TestBring: a request brings the credential of a source if it has each of its headers, once and in a form that can be sent.
func TestBring(t *testing.T) {
	t.Parallel()
	ann := &steps.Caller{ID: "token:ann"}
	broken := http.Header{"X-Tenant": {"acme\r\nAuthorization: Bearer other"}}
	for name, test := range map[string]struct {
		header http.Header
		names  string
	}{
		"nothing":          {header(), ""},
		"another header":   {header("X-Other", "acme"), ""},
		"a tenant":         {header("X-Tenant", "acme"), "inventory"},
		"in lower case":    {header("x-tenant", "acme"), "inventory"},
		"both":             {header("X-Tenant", "acme", "Authorization", "Bearer t"), "inventory tickets"},
		"only the token":   {header("Authorization", "Bearer t"), ""},
		"the tenant twice": {header("X-Tenant", "acme", "X-Tenant", "acme", "Authorization", "Bearer t"), ""},
		"an empty tenant":  {header("X-Tenant", ""), ""},
		"line breaks":      {broken, ""},
	} {
		table := New(rules, nil)
		ids := table.Bring(ann, test.header)
		var names []string
		for id := range strings.FieldsSeq(ids) {
			source, digest, _ := strings.Cut(id, "=")
			names = append(names, source)
			c := table.Find(source, digest)
			if c == nil || c.ID() != id {
				t.Fatalf("%s: %s is not found: %v", name, id, c)
			}
			headers, err := c.Headers(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range headers {
				if test.header.Get(key) != value {
					t.Errorf("%s: %s carries %s: %q, want %q", name, source, key, value, test.header.Get(key))
				}
			}
		}
		if strings.Join(names, " ") != test.names {
			t.Errorf("%s: brings %q, want %q", name, names, test.names)
		}
		if strings.Contains(ids, "acme") || strings.Contains(ids, "Bearer") || strings.Contains(ids, "ann") {
			t.Errorf("%s: the ids show what they stand for: %s", name, ids)
		}
	}
}

// TestDigest: a credential is one of a caller, a source, and what was brought. It is the same for each request, and for tables with one MAC.
func TestDigest(t *testing.T) {
	t.Parallel()
	table := New(rules, nil)
	seen := map[string]string{}
	for _, caller := range []string{"token:ann", "token:bob", "token:ann2"} {
		for _, tenant := range []string{"acme", "acme2", "globex"} {
			for _, token := range []string{"t", "u"} {
				h := header("X-Tenant", tenant, "Authorization", "Bearer "+token)
				for id := range strings.FieldsSeq(table.Bring(&steps.Caller{ID: caller}, h)) {
					what := caller + tenant
					if strings.HasPrefix(id, "tickets") {
						what += token
					}
					if other, ok := seen[id]; ok && other != what {
						t.Errorf("%s and %s have the same credential", other, what)
					}
					seen[id] = what
				}
			}
		}
	}
	if want := 3*3*2 + 3*3; len(seen) != want {
		t.Errorf("%d credentials, want %d", len(seen), want)
	}
	ann, h := &steps.Caller{ID: "token:ann"}, header("X-Tenant", "acme")
	if before, after := table.Bring(ann, h), New(rules, table).Bring(ann, h); before != after {
		t.Errorf("%s before a reload, %s after it", before, after)
	}
	if one, other := New(rules, nil).Bring(ann, h), New(rules, nil).Bring(ann, h); one == other {
		t.Error("the digests of two processes without a journal are the same")
	}
}

// TestForgotten: what no request has brought for an hour is not found any more, until a request brings it.
func TestForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, ann := New(rules, nil), &steps.Caller{ID: "token:ann"}
		_, digest, _ := strings.Cut(table.Bring(ann, header("X-Tenant", "acme")), "=")
		found := func() bool { return table.Find("inventory", digest) != nil }
		time.Sleep(maxIdle - 1)
		if !found() {
			t.Error("it is forgotten too early")
		}
		table.Bring(ann, header("X-Tenant", "acme"))
		time.Sleep(maxIdle - 1)
		if !found() {
			t.Error("it is forgotten although it was brought again")
		}
		time.Sleep(time.Nanosecond)
		if found() {
			t.Error("it is found after an hour")
		}
		table.Bring(ann, header("X-Tenant", "globex"))
		if n := table.known.Len(); n != 1 {
			t.Errorf("%d credentials are kept, want 1", n)
		}
		table.Bring(ann, header("X-Tenant", "acme"))
		if !found() {
			t.Error("it is not found although it was brought again")
		}
		for i := range maxCredentials + 10 {
			table.Bring(ann, header("X-Tenant", fmt.Sprint(i)))
		}
		if n := table.known.Len(); n != maxCredentials {
			t.Errorf("%d credentials are kept, want %d", n, maxCredentials)
		}
	})
}

// TestMissing: a caller is told which headers a source needs.
func TestMissing(t *testing.T) {
	t.Parallel()
	table := New(rules, nil)
	for name, want := range map[string]string{
		"inventory": "send the header x-tenant with", "tickets": "send the headers Authorization and X-Tenant with",
	} {
		if f := table.Missing(name); f == nil || f.Code != fault.Denied || !strings.Contains(f.Message, want) {
			t.Errorf("%s: %v, want %q", name, f, want)
		}
	}
	if f := table.Missing("other"); f != nil {
		t.Errorf("other: %v, want nothing", f)
	}
}

// TestSecretsOfHeaders: values of secret headers are removed from results and errors; others, such as a tenant, are not.
func TestSecretsOfHeaders(t *testing.T) {
	t.Parallel()
	h := map[string]string{"Authorization": "Bearer qq-secret-token-1234567890", "X-Tenant": "acme"}
	c := passedCredential("tickets", "d", maps.Clone(h))
	if got := string(c.Scrubber.JSON([]byte(`{"you":"acme","sent":"Bearer qq-secret-token-1234567890"}`))); strings.Contains(got, "qq-secret") ||
		!strings.Contains(got, "acme") {
		t.Errorf("the result is %s", got)
	}
	if c := passedCredential("inventory", "d", map[string]string{"X-Tenant": "acme"}); c.Scrubber != nil {
		t.Error("a tenant counts as a secret")
	}
}
