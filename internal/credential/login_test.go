package credential

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// fakeLogin is the login of a caller, which a test changes.
type fakeLogin struct {
	id, noted, token, refused string
	err                       error
	reads                     int
}

func (l *fakeLogin) Refresh(_ context.Context, now bool) (changed bool) {
	if now {
		l.reads++
	}
	changed, l.noted = l.id != l.noted, l.id
	return changed
}

func (l *fakeLogin) ID() string { return l.id }

func (l *fakeLogin) Token(_ context.Context, id, refused string) (string, error) {
	if l.refused = refused; id != l.id {
		return "", fault.New(fault.Denied, "it is over")
	}
	return l.token, l.err
}

// TestLogins: what a request brings is the same before and after a login. Its credential is another one for each login, and is the same
// for all tokens of one.
func TestLogins(t *testing.T) {
	t.Parallel()
	logins := map[string]*fakeLogin{"token:ann": {}, "token:bob": {}}
	open := func(caller string) Login {
		if l := logins[caller]; l != nil {
			return l
		}
		return nil
	}
	changes := 0
	rules := func() []Rule { return []Rule{{Name: "desk", Login: &Logins{Open: open, Help: "go there"}}} }
	table := New(rules(), nil)
	table.Changed = func() { changes++ }
	ids := map[string]string{}
	for caller := range logins {
		ids[caller] = table.Bring(&steps.Caller{ID: caller}, nil)
		if ids[caller] != table.Bring(&steps.Caller{ID: caller}, http.Header{"Authorization": {"Bearer x"}}) || !strings.HasPrefix(ids[caller], "desk=") {
			t.Errorf("%s brings %q", caller, ids[caller])
		}
	}
	if other := table.Bring(&steps.Caller{ID: "token:eve"}, nil); other != "" || ids["token:ann"] == ids["token:bob"] {
		t.Errorf("a caller without logins brings %q, and others %v", other, ids)
	}
	ann := logins["token:ann"]
	find := func(digest string) *steps.Credential { return table.Find("desk", digest) }
	_, place, _ := strings.Cut(ids["token:ann"], "=")
	if find(place) != nil || table.Missing("desk") == nil || !strings.Contains(table.Missing("desk").Message, "go there") {
		t.Errorf("without a login there is a credential, or the remedy is missing: %v", table.Missing("desk"))
	}
	ann.id, ann.token = "first", "secret-token-1"
	table.Refresh(ids["token:ann"])
	first := find(place)
	if first == nil || changes != 1 || find(first.Digest) != first || !first.Kept || first.Digest == place {
		t.Fatalf("after the login there is %+v, after %d changes", first, changes)
	}
	_, others, _ := strings.Cut(ids["token:bob"], "=")
	if find(others) != nil || find(others+".first") != nil {
		t.Error("the other caller has it, too")
	}
	if tokenOf(t, first) != "Bearer secret-token-1" {
		t.Error("calls carry another token")
	}
	ann.token = "secret-token-2"
	if !first.Refused(map[string]string{"Authorization": "Bearer secret-token-1"}) || tokenOf(t, first) != "Bearer secret-token-2" ||
		ann.refused != "secret-token-1" || find(place) != first {
		t.Error("a renewed token is another credential, or none")
	}
	if shown := first.Scrubber.Text("secret-token-1 secret-token-2"); strings.Contains(shown, "secret") {
		t.Errorf("tokens are shown: %s", shown)
	}
	ann.id = "second"
	table.Reread(ids["token:ann"])
	second := find(place)
	if second == nil || second.Digest == first.Digest || find(first.Digest) != nil || changes != 2 || ann.reads != 1 {
		t.Errorf("another login has the credential %+v after %d changes", second, changes)
	}
	_, err := first.Headers(t.Context())
	if f, _ := fault.As(err); f == nil || f.Code != fault.Denied || f.Outcome != fault.NotSent || !errors.Is(err, steps.ErrCredential) {
		t.Errorf("a call with the login before: %+v", err)
	}
	ann.id = ""
	if table.Refresh(ids["token:ann"]); find(place) != nil || changes != 3 {
		t.Error("after the logout there is a credential")
	}
	ann.id = "third"
	find(place)
	logins["token:ann"] = &fakeLogin{id: "third", token: "secret-token-3"} // as other settings open it
	after := New(rules(), table)
	if found := after.Find("desk", place); found == nil || tokenOf(t, found) != "Bearer secret-token-3" {
		t.Error("a reload forgets the login, or goes on with the settings before")
	}
	if after.Bring(&steps.Caller{ID: "token:ann"}, nil) != ids["token:ann"] || New(nil, after).Find("desk", place) != nil {
		t.Error("a reload changes what a caller brings, or a source that is gone has logins")
	}
}

// TestIdleLogins: what belongs to a login ends when the caller was not here for an hour. The login stays.
func TestIdleLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := New([]Rule{{Name: "desk", Login: &Logins{Open: func(string) Login { return &fakeLogin{id: "one"} }}}}, nil)
		id := table.Bring(&steps.Caller{}, nil)
		_, place, _ := strings.Cut(id, "=")
		own := table.Find("desk", place).Digest
		time.Sleep(maxIdle)
		if table.Find("desk", own) != nil || table.Find("desk", place) == nil {
			t.Error("an idle login has connections, or is none")
		}
		if table.Refresh(id); table.Find("desk", own) == nil {
			t.Error("the login does not come back")
		}
	})
}
