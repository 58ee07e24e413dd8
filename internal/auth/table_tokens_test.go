package auth_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	known, faults := auth.New(&auth.Options{Tokens: []auth.Token{
		{Name: "ci", SHA256: hashOf("one")},
		{Name: "ann", SHA256: " \t" + strings.ToUpper(hashOf("two")) + "\n", Rights: steps.Rights{Tier: steps.TierAdmin, Functions: " fs.*\t net.* "}, Decides: true,
			DecidesFor: []string{"ci", "removed", "ci\ntoken:x", "later"}},
		{Name: "later", SHA256: hashOf("fourth")},
	}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	defer known.Close()
	for token, want := range map[string]steps.Caller{
		"one": {ID: "token:ci", Rights: steps.Rights{Tier: steps.TierRead}},
		"two": {ID: "token:ann", Rights: steps.Rights{Tier: steps.TierAdmin, Functions: "fs.* net.*"}, Decides: true,
			DecidesFor: "token:ci\ntoken:later"},
	} {
		if caller, err := known.Verify(t.Context(), token); err != nil || *caller != want {
			t.Errorf("%s: got %+v, %v, want %+v", token, caller, err, want)
		}
	}
	caller, _ := known.Verify(t.Context(), "one")
	caller.Tier = steps.TierAdmin
	if again, _ := known.Verify(t.Context(), "one"); again.Tier != steps.TierRead {
		t.Error("changing a returned caller changed the table")
	}
	messages := map[string]bool{}
	for _, token := range []string{"", "three", "One", "one ", hashOf("one"), strings.Repeat("x", maxToken+1), "a.b.c",
		rsaPair.plain("https://id.example.com")} {
		caller, err := known.Verify(t.Context(), token)
		if !isInvalid(err) || caller != nil {
			t.Errorf("%.20q: got %+v, %v, want invalid_token", token, caller, err)
			continue
		}
		f, _ := fault.As(err)
		messages[f.Message] = true
		if len(token) > 4 && strings.Contains(f.Message+f.Err.Error(), token) {
			t.Errorf("the error shows the token: %v, %v", f, f.Err)
		}
	}
	if len(messages) != 1 {
		t.Errorf("the messages of refused tokens differ: %v", messages)
	}
	if issuers := known.Issuers(); issuers != nil {
		t.Errorf("got issuers %q, want none", issuers)
	}
}

func TestNoOptions(t *testing.T) {
	t.Parallel()
	known, faults := auth.New(nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, err := known.Verify(t.Context(), "x"); !isInvalid(err) {
		t.Errorf("got error %v, want invalid_token", err)
	}
	known.Close()
	known.Close()
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	good := hashOf("a token")
	for name, test := range map[string]struct {
		token auth.Token
		at    string
	}{
		"no name":                   {auth.Token{SHA256: good}, "/tokens/1/name"},
		"name twice":                {auth.Token{Name: "ci", SHA256: good}, "/tokens/1/name"},
		"name with a line break":    {auth.Token{Name: "a\nb", SHA256: good}, "/tokens/1/name"},
		"name with blanks":          {auth.Token{Name: " a", SHA256: good}, "/tokens/1/name"},
		"name not UTF-8":            {auth.Token{Name: "a\xff", SHA256: good}, "/tokens/1/name"},
		"name with an RTL override": {auth.Token{Name: "a\u202eb", SHA256: good}, "/tokens/1/name"},
		"name too long":             {auth.Token{Name: strings.Repeat("a", maxName+1), SHA256: good}, "/tokens/1/name"},
		"no hash":                   {auth.Token{Name: "a"}, "/tokens/1/sha256"},
		"hash too short":            {auth.Token{Name: "a", SHA256: good[2:]}, "/tokens/1/sha256"},
		"hash too long":             {auth.Token{Name: "a", SHA256: good + "00"}, "/tokens/1/sha256"},
		"a line of sha256sum":       {auth.Token{Name: "a", SHA256: good + "  -"}, "/tokens/1/sha256"},
		"the token itself":          {auth.Token{Name: "a", SHA256: "s3cr3t-s3cr3t"}, "/tokens/1/sha256"},
		"hash of an empty token":    {auth.Token{Name: "a", SHA256: hashOf("")}, "/tokens/1/sha256"},
		"hash of a line break":      {auth.Token{Name: "a", SHA256: hashOf("\n")}, "/tokens/1/sha256"},
		"same hash":                 {auth.Token{Name: "a", SHA256: strings.ToUpper(hashOf("first"))}, "/tokens/1/sha256"},
		"tier too high":             {auth.Token{Name: "a", SHA256: good, Rights: steps.Rights{Tier: steps.TierAdmin + 1}}, "/tokens/1/tier"},
		"functions blank":           {auth.Token{Name: "a", SHA256: good, Rights: steps.Rights{Functions: " "}}, "/tokens/1/functions"},
		"pattern with a NUL":        {auth.Token{Name: "a", SHA256: good, Rights: steps.Rights{Functions: "a b\x00"}}, "/tokens/1/functions/1"},
	} {
		known, faults := auth.New(&auth.Options{Tokens: []auth.Token{{Name: "ci", SHA256: hashOf("first")}, test.token}})
		if known != nil || len(faults) != 1 || faults[0].At != test.at || faults[0].Code != fault.BadRequest {
			t.Errorf("%s: got faults %v, want one bad_request at %s", name, faults, test.at)
			continue
		}
		if strings.Contains(faults[0].Message, "s3cr3t") || strings.Contains(faults[0].Message, good) {
			t.Errorf("%s: the message shows the hash: %v", name, faults[0])
		}
	}
	_, faults := auth.New(&auth.Options{Tokens: []auth.Token{{}, {}}, JWT: &auth.JWT{}})
	var positions []string
	for _, f := range faults {
		positions = append(positions, f.At)
	}
	if want := []string{"/tokens/0/name", "/tokens/0/sha256", "/tokens/1/name", "/tokens/1/sha256",
		"/jwt/issuer", "/jwt/audience", "/jwt/scopes"}; !slices.Equal(positions, want) {
		t.Errorf("faults at %q, want %q", positions, want)
	}
}

// TestExpires checks the expiry on which a transport may rely.
func TestExpires(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil))
	known := table(t, s.URL, "")
	caller, err := known.Verify(t.Context(), rsaPair.plain(s.URL))
	if err != nil || !caller.Expires.Equal(now.Add(time.Hour+leeway)) || caller.ID != "jwt:ann@"+hashOf(s.URL)[:8] {
		t.Errorf("got %+v, %v, want jwt:ann@... until %v", caller, err, now.Add(time.Hour+leeway))
	}
}
