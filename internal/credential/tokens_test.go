package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/oauth2"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/oauthtest"
	"github.com/onecall-mcp/onecall/steps"
)

// tokenOf returns the token that calls with a credential carry.
func tokenOf(t *testing.T, c *steps.Credential) string {
	t.Helper()
	headers, err := c.Headers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return headers["Authorization"]
}

// TestGateway: onecall gets a token for itself, with a secret or a key, once until it ends or is refused.
func TestGateway(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	key, f := ParseKey(s.Key(t))
	if f != nil {
		t.Fatal(f)
	}
	signed := &Endpoint{URL: s.TokenURL, ClientID: "robot", Key: key, Scope: "read write", Client: http.DefaultClient}
	for client, e := range map[string]*Endpoint{"gateway": gatewayAt(s), "robot": signed} {
		c := Gateway("stock", e)
		first := tokenOf(t, c)
		if claims := claimsOf(t, first); gjson.Get(claims, "sub").Str != client || gjson.Get(claims, "aud.0").Str != oauthtest.Audience {
			t.Errorf("%s: the token says %s", client, claims)
		}
		before := len(s.Requests())
		if again := tokenOf(t, c); again != first || len(s.Requests()) != before {
			t.Errorf("%s: the token is fetched again", client)
		}
		if !c.Refused(map[string]string{"Authorization": first}) || tokenOf(t, c) == first {
			t.Errorf("%s: a token that was refused is used again", client)
		}
		if shown := c.Scrubber.Text("it said " + first); strings.Contains(shown, strings.TrimPrefix(first, bearer)) {
			t.Errorf("%s: the token is shown", client)
		}
	}
	for _, request := range s.Requests() {
		if request.Get("client_id") == "robot" && (request.Get("scope") != "read write" || request.Get("client_assertion") == "") {
			t.Errorf("the request is %v", request)
		}
	}
}

// TestExchange: a caller's token is exchanged once, for one of the service; each caller has its own, and callers without a token of the
// authorization server have none.
func TestExchange(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	e := gatewayAt(s)
	e.Audience, e.Scope = "https://tickets.example.com", "read"
	table := New([]Rule{{Name: "tickets", Exchange: e}}, nil)
	tokens := map[string]string{}
	for _, user := range []string{"ann", "bob"} {
		caller, h := &steps.Caller{ID: "jwt:" + user + "@0123"}, header("Authorization", "Bearer "+s.UserToken(t, user))
		before := len(s.Requests())
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				_, digest, _ := strings.Cut(table.Bring(caller, h), "=")
				if _, err := table.Find("tickets", digest).Headers(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		if n := len(s.Requests()) - before; n != 1 {
			t.Errorf("%s: %d requests, want 1", user, n)
		}
		_, digest, _ := strings.Cut(table.Bring(caller, h), "=")
		c := table.Find("tickets", digest)
		tokens[user] = tokenOf(t, c)
		if claims := claimsOf(t, tokens[user]); gjson.Get(claims, "sub").Str != user || gjson.Get(claims, "aud.0").Str != e.Audience {
			t.Errorf("%s: the token says %s", user, claims)
		}
		subject := strings.TrimPrefix(h.Get("Authorization"), bearer)
		if text := c.Scrubber.Text(subject + " " + tokens[user]); strings.Contains(text, subject) || strings.Contains(text, tokens[user]) {
			t.Errorf("%s: a token is shown", user)
		}
	}
	if tokens["ann"] == tokens["bob"] {
		t.Error("ann and bob have the same token")
	}
	if ids := table.Bring(&steps.Caller{ID: "token:ci"}, header("Authorization", "Bearer static")); ids != "" {
		t.Errorf("a token of the table is exchanged: %s", ids)
	}
	if f := table.Missing("tickets"); f == nil || f.Code != fault.Denied {
		t.Errorf("missing: %v", f)
	}
}

// TestChangedEndpoint: after a reload, callers that are known get tokens from the endpoint as it says now. Their runs stay theirs.
func TestChangedEndpoint(t *testing.T) {
	t.Parallel()
	before, now := oauthtest.Start(t), oauthtest.Start(t)
	before.Answer(answerWith(200, `{"access_token":"old-token-0123456789","token_type":"Bearer","expires_in":60}`))
	now.Answer(answerWith(200, `{"access_token":"new-token-0123456789","token_type":"Bearer","expires_in":60}`))
	ann, h := &steps.Caller{ID: "jwt:ann@0123"}, header("Authorization", "Bearer subject")
	old := New([]Rule{{Name: "tickets", Exchange: gatewayAt(before)}}, nil)
	id := old.Bring(ann, h)
	_, digest, _ := strings.Cut(id, "=")
	tokenOf(t, old.Find("tickets", digest))
	table := New([]Rule{{Name: "tickets", Exchange: gatewayAt(now)}}, old)
	if again := table.Bring(ann, h); again != id {
		t.Errorf("the credential is %s, and was %s", again, id)
	}
	if token := tokenOf(t, table.Find("tickets", digest)); token != "Bearer new-token-0123456789" {
		t.Errorf("the token is %s", token)
	}
}

// answerWith answers a request for a token with a status and a body.
func answerWith(status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
}

// jwtOf returns an unsigned JWT, or one whose signature nobody checks.
func jwtOf(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

// TestBadExchanges: whatever the endpoint answers, a call that cannot be made says why, to the caller too, and shows no token.
func TestBadExchanges(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	const subject = "qq-subject-token-0123456789"
	token := func(access, kind string, expires int) string {
		return fmt.Sprintf(`{"access_token":%q,"token_type":%q,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":%d}`,
			access, kind, expires)
	}
	for name, test := range map[string]struct {
		status int
		body   string
		code   fault.Code
		why    string
	}{
		"refused":          {400, `{"error":"invalid_grant","error_description":"` + subject + ` is bad"}`, fault.Denied, "400 Bad Request, invalid_grant"},
		"down":             {503, `{}`, fault.Unavailable, "503"},
		"no JSON":          {200, `<html>` + subject, fault.Unavailable, "no token"},
		"no token":         {200, `{"token_type":"Bearer"}`, fault.Unavailable, "no token"},
		"another type":     {200, token("opaque-token-0123456789", "N_A", 60), fault.Denied, "not Bearer"},
		"another audience": {200, token(jwtOf(`{"aud":"https://other.example.com"}`), "Bearer", 60), fault.Denied, "another audience"},
		"ended":            {200, token(jwtOf(`{"aud":["https://tickets.example.com"],"exp":1000}`), "Bearer", 60), fault.Denied, "ended already"},
		"a redirect":       {307, ``, fault.Denied, "307"},
	} {
		s.Answer(answerWith(test.status, test.body))
		client := *http.DefaultClient
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		e := gatewayAt(s)
		e.Audience, e.Client = "https://tickets.example.com", &client
		c := exchangedCredential(&Rule{Name: "tickets", Exchange: e}, "d", subject, time.Time{})
		_, err := c.Headers(t.Context())
		f, ok := fault.As(err)
		if !ok || f.Code != test.code || f.Outcome != fault.NotSent || !strings.Contains(f.Message, test.why) ||
			strings.Contains(f.Message, "qq-subject") || !errors.Is(f, steps.ErrCredential) {
			t.Errorf("%s: %+v, want %s with %q", name, f, test.code, test.why)
		}
	}
}

// TestTokensThatEnd: a token that is about to end serves only the calls that waited for it; no token outlives that of its caller.
func TestTokensThatEnd(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	n := 0
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		n++
		return answerWith(200, fmt.Sprintf(`{"access_token":"token-%d-0123456789","token_type":"Bearer","expires_in":%s}`, n,
			r.PostForm.Get("subject_token")))(w, r)
	})
	for life, kept := range map[string]bool{"5": false, "3600": true} {
		c := exchangedCredential(&Rule{Name: "tickets", Exchange: gatewayAt(s)}, "d", life, time.Time{})
		if first, second := tokenOf(t, c), tokenOf(t, c); (first == second) != kept {
			t.Errorf("a token of %s s: kept is %v, want %v", life, first == second, kept)
		}
		c = exchangedCredential(&Rule{Name: "tickets", Exchange: gatewayAt(s)}, "d", life, time.Now().Add(5*time.Second))
		if first, second := tokenOf(t, c), tokenOf(t, c); first == second {
			t.Errorf("a token of %s s outlives that of its caller", life)
		}
	}
}

// TestRefusedOnce: a refusal about the caller's token is asked for once, and answers further calls for a moment. An endpoint that wants the
// secret in the form gets it there at once after the first token.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	s.Answer(answerWith(400, `{"error":"invalid_grant"}`))
	c := exchangedCredential(&Rule{Name: "tickets", Exchange: gatewayAt(s)}, "d", "subject", time.Time{})
	for range 3 {
		if _, err := c.Headers(t.Context()); fault.CodeOf(err) != fault.Denied {
			t.Errorf("refused: %v", err)
		}
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests for three calls, want 1", n)
	}
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, basic := r.BasicAuth(); basic {
			return answerWith(401, `{"error":"invalid_client"}`)(w, r)
		}
		return answerWith(200, `{"access_token":"token-0123456789","token_type":"Bearer","expires_in":60}`)(w, r)
	})
	e := gatewayAt(s)
	for _, want := range []int{2, 1} {
		before := len(s.Requests())
		tokenOf(t, exchangedCredential(&Rule{Name: "tickets", Exchange: e}, "d", "subject", time.Time{}))
		if n := len(s.Requests()) - before; n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	}
}

// TestRefusalEnds: a refusal answers no call later than a moment after it.
func TestRefusalEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		tokens := &tokens{fetch: func(context.Context) (*oauth2.Token, error) {
			asked++
			return nil, fault.New(fault.Denied, "no")
		}}
		for _, want := range []int{1, 1, 2} {
			if _, err := tokens.token(t.Context()); fault.CodeOf(err) != fault.Denied || asked != want {
				t.Errorf("%v after %d requests, want %d", err, asked, want)
			}
			time.Sleep(deniedLife/2 + 1)
		}
	})
}

// TestSlowExchange: a caller that leaves does not end the exchange for others who wait.
func TestSlowExchange(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		asked <- struct{}{}
		<-answer
		return answerWith(200, `{"access_token":"token-0123456789","token_type":"Bearer","expires_in":60}`)(w, r)
	})
	c := exchangedCredential(&Rule{Name: "tickets", Exchange: gatewayAt(s)}, "d", "subject", time.Time{})
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Headers(leaving)
		left <- err
	}()
	<-asked
	stays := make(chan error, 1)
	go func() {
		_, err := c.Headers(t.Context())
		stays <- err
	}()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who has left gets %v", err)
	}
	close(answer)
	if err := <-stays; err != nil {
		t.Errorf("who stays gets %v", err)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestKeys: keys are read from PEM and JWK; what is no private key is refused, and not shown.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := oauthtest.Start(t)
	if _, f := ParseKey(s.Key(t)); f != nil {
		t.Error(f)
	}
	for _, text := range []string{"", "qq-secret", `{"kty":"EC"}`, `{"kty":"oct","k":"cXEtc2VjcmV0"}`, "-----BEGIN PRIVATE KEY-----\ncXEtc2VjcmV0\n-----END PRIVATE KEY-----\n"} {
		if key, f := ParseKey(text); key != nil || f == nil || f.Code != fault.BadRequest || strings.Contains(f.Message, "qq-secret") {
			t.Errorf("%q: %v, %v", text, key, f)
		}
	}
}
