package auth_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/steps"
)

// wantRefused checks that an error is the denied error of all refused tokens, has the reason why, and shows nothing of the token.
func wantRefused(t *testing.T, name, token string, err error, why string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || !isInvalid(err) || !strings.Contains(fmt.Sprint(f.Err), why) {
		t.Errorf("%s: %v (%v), want %q", name, err, inner(err), why)
		return
	}
	if f.Message != "the bearer token is not accepted: it is unknown, expired, or meant for another server" {
		t.Errorf("%s: the message gives a reason: %s", name, f.Message)
	}
	for segment := range strings.SplitSeq(token, ".") {
		if decoded, _ := base64.RawURLEncoding.DecodeString(segment); len(segment) > 8 &&
			(strings.Contains(fmt.Sprint(f.Err), segment) || len(decoded) > 0 && strings.Contains(fmt.Sprint(f.Err), string(decoded))) {
			t.Errorf("%s: the reason shows the token: %v", name, f.Err)
		}
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil))
	known := table(t, s.URL, "")
	type m = map[string]any
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, test := range map[string]struct {
		more m
		why  string // the reason of the refusal; "": the token is accepted
	}{
		"unchanged":               {nil, ""},
		"audience in a list":      {m{"aud": []string{"a", "https://tools.example.com/mcp"}}, ""},
		"nbf and iat long ago":    {m{"nbf": 1, "iat": 0}, ""},
		"within the leeway":       {m{"exp": at(-leeway + time.Second), "nbf": at(leeway - time.Second), "iat": at(leeway - time.Second)}, ""},
		"expiry a fraction":       {m{"exp": float64(at(time.Hour)) + 0.5}, ""},
		"expiry an exponent":      {m{"exp": json.RawMessage("1e12")}, ""},
		"expiry far off":          {m{"exp": json.RawMessage("4e18")}, ""},
		"no iat":                  {m{"iat": nil}, ""},
		"scp":                     {m{"scope": nil, "scp": []string{"a", "onecall.read"}}, ""},
		"scp, a string":           {m{"scope": nil, "scp": "a onecall.read"}, ""},
		"scope, a list":           {m{"scope": []string{"onecall.read"}}, ""},
		"unknown claims":          {m{"client_id": "web", "act": m{"sub": "bob"}, "Scope": "onecall.admin"}, ""},
		"another issuer":          {m{"iss": "https://evil.example"}, "issuer"},
		"issuer with a slash":     {m{"iss": s.URL + "/"}, "issuer"},
		"issuer in capitals":      {m{"iss": strings.ToUpper(s.URL)}, "issuer"},
		"no issuer":               {m{"iss": nil}, "issuer"},
		"issuer null":             {m{"iss": json.RawMessage("null")}, "issuer"},
		"issuer in a list":        {m{"iss": []string{s.URL}}, "malformed"},
		"another audience":        {m{"aud": "https://tools.example.com"}, "audience"},
		"other audiences":         {m{"aud": []string{"a", "b"}}, "audience"},
		"audience plus a path":    {m{"aud": "https://tools.example.com/mcp/more"}, "audience"},
		"no audience":             {m{"aud": nil}, "audience"},
		"audience empty":          {m{"aud": ""}, "audience"},
		"audience an empty list":  {m{"aud": []string{}}, "audience"},
		"audience an object":      {m{"aud": m{"https://tools.example.com/mcp": 1}}, "malformed"},
		"audience with a number":  {m{"aud": []any{1, "https://tools.example.com/mcp"}}, "malformed"},
		"audience null":           {m{"aud": json.RawMessage("null")}, ""}, // see below
		"no expiry":               {m{"exp": nil}, "never expires"},
		"expiry null":             {m{"exp": json.RawMessage("null")}, "never expires"},
		"expired":                 {m{"exp": at(-leeway - time.Second)}, "expired"},
		"expired long ago":        {m{"exp": 0}, "expired"},
		"expired before 1970":     {m{"exp": -1}, "expired"},
		"expiry a string":         {m{"exp": fmt.Sprint(at(time.Hour))}, "malformed"},
		"expiry beyond floats":    {m{"exp": json.RawMessage("1e400")}, "malformed"},
		"expiry beyond integers":  {m{"exp": json.RawMessage("9223372036854775808")}, "malformed"},
		"expiry in a list":        {m{"exp": []int64{at(time.Hour)}}, "malformed"},
		"not yet":                 {m{"nbf": at(leeway + 2*time.Second)}, "not valid yet"},
		"nbf far off":             {m{"nbf": json.RawMessage("4e18")}, "not valid yet"},
		"nbf beyond integers":     {m{"nbf": json.RawMessage("9.3e18")}, "malformed"},
		"issued in the future":    {m{"iat": at(leeway + 2*time.Second)}, "issued in the future"},
		"no subject":              {m{"sub": nil}, "subject"},
		"subject empty":           {m{"sub": ""}, "subject"},
		"subject a number":        {m{"sub": 7}, "malformed"},
		"subject with line break": {m{"sub": "ann\nbob"}, "subject"},
		"subject with a NUL":      {m{"sub": "ann\x00"}, "subject"},
		"subject, RTL override":   {m{"sub": "ann\u202e"}, "subject"},
		"subject not Unicode":     {m{"sub": json.RawMessage(`"\ud800"`)}, "subject"},
		"subject too long":        {m{"sub": strings.Repeat("a", maxSubject+1)}, "subject"},
		"subject at its maximum":  {m{"sub": strings.Repeat("a", maxSubject)}, ""},
		"scope a number":          {m{"scope": 1}, "malformed"},
		"scope with a number":     {m{"scope": []any{"onecall.read", 1}}, "malformed"},
		"subject in any script":   {m{"sub": "Ünï 名前"}, ""},
	} {
		if name == "audience null" {
			test.why = "a" // malformed or of another audience: the decoder decides
		}
		token := rsaPair.token(rsaPair.header(), goodClaims(s.URL, test.more))
		switch caller, err := known.Verify(t.Context(), token); {
		case test.why != "":
			wantRefused(t, name, token, err, test.why)
		case err != nil:
			t.Errorf("%s: got error %v, want none", name, inner(err))
		case caller.Tier != steps.TierRead || caller.Functions != "" || !strings.HasPrefix(caller.ID, "jwt:"):
			t.Errorf("%s: got caller %+v, want read access and an ID that begins with jwt:", name, caller)
		default:
			if _, err := json.Marshal(caller); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, claims := range map[string]string{
		"a claim twice":               strings.Replace(goodClaims(s.URL, nil), "{", `{"exp":1,`, 1),
		"an unknown claim twice":      strings.Replace(goodClaims(s.URL, nil), "{", `{"x":1,"x":2,`, 1),
		"a claim twice, once escaped": strings.Replace(goodClaims(s.URL, nil), "{", `{"\u0065xp":1,`, 1),
		"claims in capitals":          strings.NewReplacer(`"exp"`, `"EXP"`).Replace(goodClaims(s.URL, nil)),
		"trailing object":             goodClaims(s.URL, nil) + "{}",
		"a list":                      "[" + goodClaims(s.URL, nil) + "]",
		"null":                        "null",
		"nothing":                     "",
		"not JSON":                    "{",
		"deep":                        `{"x":` + strings.Repeat("[", 8000),
	} {
		token := rsaPair.token(rsaPair.header(), claims)
		_, err := known.Verify(t.Context(), token)
		wantRefused(t, name, token, err, "JWT")
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, edPair.jwk(nil))
	known := table(t, s.URL, "", func(o *auth.Options) { o.JWT.Decides = "onecall.approve" })
	for scopes, decides := range map[string]bool{"onecall.read": false, "onecall.approve onecall.read": true, "onecall.approves onecall.read": false} {
		caller, err := known.Verify(t.Context(), edPair.token(edPair.header(), goodClaims(s.URL, map[string]any{"scope": scopes})))
		if err != nil || caller.Decides != decides {
			t.Errorf("scopes %q: got %+v, %v, want Decides %t", scopes, caller, err, decides)
		}
	}
	for scopes, want := range map[string]steps.Tier{
		"onecall.approve": steps.TierDefault,
		"onecall.read":    steps.TierRead,
		"openid  onecall.write onecall.read profile": steps.TierReadWrite,
		"onecall.admin":               steps.TierAdmin,
		"onecall.read\tonecall.admin": steps.TierAdmin,
		"":                            steps.TierDefault,
		"openid":                      steps.TierDefault,
		"ONECALL.READ":                steps.TierDefault,
		"onecall.read,onecall.write":  steps.TierDefault,
		"onecall":                     steps.TierDefault,
	} {
		caller, err := known.Verify(t.Context(), edPair.token(edPair.header(), goodClaims(s.URL, map[string]any{"scope": scopes})))
		switch {
		case want == steps.TierDefault:
			f, _ := fault.As(err)
			if fault.CodeOf(err) != fault.Denied || !errors.Is(err, steps.ErrScope) || isInvalid(err) || len(f.Available) != 3 {
				t.Errorf("scopes %q: got %+v, %v, want denied with 3 scopes to choose from", scopes, caller, err)
			}
		case err != nil || caller.Tier != want:
			t.Errorf("scopes %q: got %+v, %v, want %v", scopes, caller, err, want)
		}
	}
	// Only a genuine token is answered with the scopes that are required.
	token := edPair.token(edPair.header(), goodClaims(s.URL, map[string]any{"scope": ""}))
	forged := token[:len(token)-8] + "AAAAAAAA"
	_, err := known.Verify(t.Context(), forged)
	wantRefused(t, "forged, without scope", forged, err, "signature")
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(map[string]any{"alg": nil}), ecPair.jwk(nil), edPair.jwk(nil))
	known := table(t, s.URL, "")
	for name, token := range map[string]string{
		"RS256": rsaPair.plain(s.URL), "ES256": ecPair.plain(s.URL), "EdDSA": edPair.plain(s.URL),
		"PS256": rsaPair.token(`{"alg":"PS256","kid":"rsa"}`, goodClaims(s.URL, nil)),
	} {
		for range 2 {
			if _, err := known.Verify(t.Context(), token); err != nil {
				t.Errorf("%s: got error %v, want none", name, inner(err))
			}
		}
		segments := strings.Split(token, ".")
		forged := segments[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(goodClaims(s.URL, map[string]any{"sub": "bob"}))) + "." + segments[2]
		_, err := known.Verify(t.Context(), forged)
		wantRefused(t, name+", other claims", forged, err, "wrong signature")
		for _, signature := range []string{"", "AAAA", segments[2][:len(segments[2])-4], segments[2] + "AAAA"} {
			forged := segments[0] + "." + segments[1] + "." + signature
			_, err := known.Verify(t.Context(), forged)
			wantRefused(t, name+", another signature", forged, err, "")
		}
	}
	zero := ecPair.token(ecPair.header(), goodClaims(s.URL, nil))
	zero = zero[:strings.LastIndex(zero, ".")+1] + b64(make([]byte, 64)) // CVE-2022-21449
	_, err := known.Verify(t.Context(), zero)
	wantRefused(t, "a signature of zeros", zero, err, "wrong signature")
}

// TestForgedHeaders: a token's own header cannot choose how the token is verified.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(map[string]any{"alg": nil}), ecPair.jwk(nil), map[string]any{"kty": "oct", "kid": "oct",
		"k": b64([]byte("shared"))})
	known := table(t, s.URL, "")
	claims := goodClaims(s.URL, nil)
	unsigned := func(header string, signature func(text []byte) []byte) string {
		text := b64([]byte(header)) + "." + b64([]byte(claims))
		return text + "." + b64(signature([]byte(text)))
	}
	public := rsaPair.private.Public().(*rsa.PublicKey)
	der := must(x509.MarshalPKIXPublicKey(public))
	evil := string(must(json.Marshal(rsaOther.jwk(map[string]any{"kid": "rsa"}))))
	tests := map[string]struct{ token, why string }{
		"none":         {unsigned(`{"alg":"none"}`, func([]byte) []byte { return nil }), "algorithm"},
		"None":         {unsigned(`{"alg":"None","kid":"rsa"}`, func([]byte) []byte { return nil }), "algorithm"},
		"no alg":       {unsigned(`{"kid":"rsa"}`, func([]byte) []byte { return nil }), "algorithm"},
		"alg a number": {unsigned(`{"alg":1,"kid":"rsa"}`, func([]byte) []byte { return nil }), "algorithm"},
		"shared key":   {unsigned(`{"alg":"HS256","kid":"oct"}`, func(text []byte) []byte { return hs256([]byte("shared"), text) }), "algorithm"},
		"algorithm of an EC key": {unsigned(`{"alg":"ES256","kid":"rsa"}`, func(text []byte) []byte { return rsaPair.sign("RS256", text) }),
			"does not have"},
		"alg twice":        {rsaPair.token(`{"alg":"RS256","alg":"RS256","kid":"rsa"}`, claims), "malformed"},
		"header in a list": {rsaPair.token(`[{"alg":"RS256","kid":"rsa"}]`, claims), "malformed"},
		"own key":          {rsaOther.token(`{"alg":"RS256","kid":"rsa","jwk":`+evil+`}`, claims), "wrong signature"},
		"own key, no kid":  {rsaOther.token(`{"alg":"RS256","jwk":`+evil+`}`, claims), "wrong signature"},
		"own key by URL":   {rsaOther.token(`{"alg":"RS256","kid":"rsa","jku":"`+s.URL+`/evil","x5u":"`+s.URL+`/evil"}`, claims), "wrong signature"},
		"kid a path":       {rsaOther.token(`{"alg":"RS256","kid":"../../../../dev/null"}`, claims), "does not have"},
		"kid with SQL":     {rsaOther.token(`{"alg":"RS256","kid":"x' UNION SELECT 'k"}`, claims), "kid"},
		"kid a URL":        {rsaOther.token(`{"alg":"RS256","kid":"`+s.URL+`/evil"}`, claims), "does not have"},
		"kid very long":    {rsaOther.token(`{"alg":"RS256","kid":"`+strings.Repeat("k", maxKeyID+1)+`"}`, claims), "kid"},
		"kid with a NUL":   {rsaOther.token(`{"alg":"RS256","kid":"rsa\u0000"}`, claims), "kid"},
		"kid of EC key":    {rsaPair.token(`{"alg":"RS256","kid":"ec"}`, claims), "does not have"},
		"kid in capitals":  {rsaPair.token(`{"alg":"RS256","kid":"RSA"}`, claims), "does not have"},
		"crit":             {rsaPair.token(`{"alg":"RS256","kid":"rsa","crit":["exp"],"exp":1}`, claims), "crit"},
		"crit empty":       {rsaPair.token(`{"alg":"RS256","kid":"rsa","crit":[]}`, claims), "crit"},
		"b64":              {rsaPair.token(`{"alg":"RS256","kid":"rsa","b64":false,"crit":["b64"]}`, claims), ""},
		"nested":           {rsaPair.token(`{"alg":"RS256","kid":"rsa","cty":"JWT"}`, rsaPair.plain(s.URL)), "cty"},
		"compressed":       {rsaPair.token(`{"alg":"RS256","kid":"rsa","zip":"DEF"}`, claims), "zip"},
		"for a logout":     {rsaPair.token(`{"alg":"RS256","kid":"rsa","typ":"logout+jwt"}`, claims), "type"},
		"typ a number":     {rsaPair.token(`{"alg":"RS256","kid":"rsa","typ":1}`, claims), "type"},
		"encrypted":        {b64([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)) + ".a.b.c.d", "no signed JWT"},
		"two parts":        {strings.Join(strings.Split(rsaPair.plain(s.URL), ".")[:2], "."), "no signed JWT"},
		"four parts":       {rsaPair.plain(s.URL) + ".", "no signed JWT"},
		"padded":           {rsaPair.plain(s.URL) + "==", "no signed JWT"},
		"a line break":     {strings.Replace(rsaPair.plain(s.URL), ".", "\n.", 1), "no signed JWT"},
		"JSON":             {`{"payload":"e30","protected":"e30","signature":"AA"}`, "no signed JWT"},
		"dots":             {"..", "JWT"},
		"too long":         {rsaPair.token(rsaPair.header(), goodClaims(s.URL, map[string]any{"x": strings.Repeat("x", maxToken*3/4)})), "too long"},
	}
	for name, secret := range map[string][]byte{
		"PEM":                            pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"PEM of PKCS #1":                 pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(public)}),
		"DER":                            der,
		"the modulus":                    public.N.Bytes(),
		"PEM without a final line break": bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"an empty key":                   nil,
	} {
		tests["HS256 by "+name] = struct{ token, why string }{unsigned(`{"alg":"HS256","kid":"rsa"}`,
			func(text []byte) []byte { return hs256(secret, text) }), "algorithm"}
	}
	for name, test := range tests {
		_, err := known.Verify(t.Context(), test.token)
		wantRefused(t, name, test.token, err, test.why)
	}
	for _, typ := range []string{"", "JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"} {
		if _, err := known.Verify(t.Context(), rsaPair.token(fmt.Sprintf(`{"alg":"RS256","kid":"rsa","typ":%q}`, typ), claims)); err != nil {
			t.Errorf("typ %q: got error %v, want none", typ, inner(err))
		}
	}
	if n := s.fetched.Load(); n > 2 {
		t.Errorf("forged tokens caused %d fetches, want at most 2", n)
	}
}

func TestKeyIDs(t *testing.T) {
	t.Parallel()
	none := map[string]any{"kid": nil}
	nameless := func(s *authServer) string { return rsaPair.token(`{"alg":"RS256"}`, goodClaims(s.URL, nil)) }
	one := newAuthServer(t, rsaPair.jwk(none), ecPair.jwk(nil))
	if _, err := table(t, one.URL, "").Verify(t.Context(), nameless(one)); err != nil {
		t.Errorf("no kid, one key: got error %v, want none", inner(err))
	}
	several := newAuthServer(t, rsaPair.jwk(nil), rsaOther.jwk(nil))
	_, err := table(t, several.URL, "").Verify(t.Context(), nameless(several))
	wantRefused(t, "no kid, several keys", "", err, "does not have")
	same := newAuthServer(t, rsaOther.jwk(map[string]any{"kid": "rsa"}), rsaPair.jwk(nil))
	if _, err := table(t, same.URL, "").Verify(t.Context(), rsaPair.plain(same.URL)); err != nil {
		t.Errorf("two keys of the same kid: got error %v, want none", inner(err))
	}
}

// TestLogsShowNoToken has a table log all that it can.
func TestLogsShowNoToken(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t, rsaPair.jwk(nil), rsaShort.jwk(nil))
	var log bytes.Buffer
	known := table(t, s.URL, "", func(o *auth.Options) {
		o.Log = slog.New(slog.NewTextHandler(io.Writer(&log), &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	token := rsaPair.plain(s.URL)
	if _, err := known.Verify(t.Context(), token); err != nil {
		t.Fatal(inner(err))
	}
	_, _ = known.Verify(t.Context(), rsaOther.plain(s.URL))
	known.Close()
	if strings.Contains(log.String(), token[len(token)-20:]) || strings.Contains(log.String(), "ann") ||
		!strings.Contains(log.String(), "too short") {
		t.Errorf(`got log %s, want "too short" in it, and neither the token nor "ann"`, log.String())
	}
}

// TestCallerIDContainsIssuer: two issuers may use the same subject, but their callers differ, and neither issuer can forge the
// other's caller.
func TestCallerIDContainsIssuer(t *testing.T) {
	t.Parallel()
	ids := map[string]string{}
	for _, issuer := range []*authServer{newAuthServer(t, rsaPair.jwk(nil)), newAuthServer(t, rsaPair.jwk(nil))} {
		known := table(t, issuer.URL, "")
		hash := hashOf(issuer.URL)[:8]
		for _, subject := range []string{"ann", "ann@example.com", "ann@" + hash} {
			caller, err := known.Verify(t.Context(), rsaPair.token(rsaPair.header(), goodClaims(issuer.URL, map[string]any{"sub": subject})))
			if err != nil {
				t.Fatal(inner(err))
			}
			if other := ids[caller.ID]; other != "" || caller.ID != "jwt:"+subject+"@"+hash {
				t.Errorf("%s of %s is caller %q, already of %q, want jwt:%s@%s, and of no other",
					subject, issuer.URL, caller.ID, other, subject, hash)
			}
			ids[caller.ID] = subject + " of " + issuer.URL
		}
	}
}
