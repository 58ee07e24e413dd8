package signing_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/signing"
	"github.com/onecall-mcp/onecall/steps"
)

// newSigner returns a signer with a new key, and the key as openssl writes it.
func newSigner(t testing.TB) (*signing.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	signer, f := signing.ParseSigner(text)
	if f != nil {
		t.Fatal(f)
	}
	return signer, text
}

func sign(t testing.TB, signer *signing.Signer, form []byte) []byte {
	t.Helper()
	text, err := signer.Sign(form)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestVerify: only the signature of this form, by an accepted key, is accepted.
func TestVerify(t *testing.T) {
	t.Parallel()
	ann, annText := newSigner(t)
	bob, _ := newSigner(t)
	form := []byte(`{"chains":{},"plan":"chain.pay"}`)
	text := sign(t, ann, form)
	public, f := signing.ParseKey(" " + ann.Key.Text + "\n")
	if f != nil || public.ID != ann.Key.ID {
		t.Fatalf("the public key: %+v, %v", public, f)
	}
	if key, f := signing.Verify(text, form, []*signing.Key{bob.Key, public}); f != nil || key.ID != ann.Key.ID {
		t.Errorf("%+v, %v; want Ann's key", key, f)
	}
	other := bytes.Replace(text, []byte(ann.Key.ID), []byte(bob.Key.ID), 1) // signed by Ann, said to be by Bob
	for name, test := range map[string]struct {
		text, form []byte
		keys       []*signing.Key
		code       fault.Code
	}{
		"another content":    {text, []byte(`{"chains":{},"plan":"chain.pays"}`), []*signing.Key{ann.Key}, fault.Denied},
		"a removed key":      {text, form, []*signing.Key{bob.Key}, fault.Denied},
		"no key":             {text, form, nil, fault.Denied},
		"another's key id":   {other, form, []*signing.Key{ann.Key, bob.Key}, fault.Denied},
		"another format":     {bytes.Replace(text, []byte("plan-1"), []byte("plan-2"), 1), form, []*signing.Key{ann.Key}, fault.NotSupported},
		"no signature":       {[]byte("{"), form, []*signing.Key{ann.Key}, fault.BadRequest},
		"an empty signature": {fmt.Appendf(nil, `{"format":"onecall-plan-1","key":%q}`, ann.Key.ID), form, []*signing.Key{ann.Key}, fault.Denied},
		"a long file":        {append(text, bytes.Repeat([]byte{' '}, signing.MaxBytes)...), form, []*signing.Key{ann.Key}, fault.BadRequest},
	} {
		if key, f := signing.Verify(test.text, test.form, test.keys); f == nil || f.Code != test.code {
			t.Errorf("%s: %+v, %v; want %s", name, key, f, test.code)
		}
	}
	for _, bad := range []string{"", "x", string(annText), ann.Key.Text[1:], "AAAA"} {
		if _, f := signing.ParseKey(bad); f == nil || f.Code != fault.BadRequest || len(bad) > 4 && strings.Contains(f.Message, bad[:5]) {
			t.Errorf("the public key %.10q…: %v, want bad_request without the text", bad, f)
		}
	}
	for _, bad := range []string{"", ann.Key.Text, strings.Replace(string(annText), "PRIVATE", "ENCRYPTED PRIVATE", 2), "-----BEGIN X-----\n-----END X-----\n"} {
		if _, f := signing.ParseSigner([]byte(bad)); f == nil || f.Code != fault.BadRequest {
			t.Errorf("the private key %.10q…: %v, want bad_request", bad, f)
		}
	}
}

const (
	planText = `{"name":"refund","description":"Pays back.","params":{"order":{"type":"string","maxLength":40},"sum":{"type":"number","maximum":100}},` +
		`"onError":"undo","steps":[{"id":"order","shop.order.get":{"id":"$input.order","fields":["id","email"]}},` +
		`{"when":"$order.state == 'paid'","fn":"bank.send","args":{"to":"$order.iban","sum":"$input.sum","fee":1.50,"tags":{"a":1,"b":[true,null]}},` +
		`"undo":{"bank.recall":{"id":"$result.id"}}},{"chain.note":{"text":"Order \u00e9 ${$order.id}"}}],"return":{"id":"$1.id"}}`
	noteText = `{"params":{"text":{"type":"string"}},"steps":[{"fn":"mail.send","args":{"to":"ops@example.com","text":"$input.text"}}]}`
)

// formOf returns what a signature of the plan signs; an error if it is no valid chain.
func formOf(plan, note string) ([]byte, error) {
	known := map[string]*steps.SavedChain{}
	for name, text := range map[string]string{"refund": plan, "note": note} {
		fn, faults := chain.Saved(name, []byte(text), &chain.Options{})
		if len(faults) > 0 {
			return nil, faults[0]
		}
		known[steps.ChainSource+"."+name] = fn.Saved
	}
	form, f := chain.SignedForm("chain.refund", func(name string) *steps.SavedChain { return known[name] })
	if f != nil {
		return nil, f
	}
	return form, nil
}

// TestPlanMutations changes a plan, the chain that it calls, and its signature at random. A signature is accepted only if the chains mean
// the same as those that were signed, by a reading of their JSON that is none of the program's.
func TestPlanMutations(t *testing.T) {
	t.Parallel()
	rounds := 3000
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		rounds = 1_000_000
	}
	signer, _ := newSigner(t)
	keys := []*signing.Key{signer.Key}
	form, err := formOf(planText, noteText)
	if err != nil {
		t.Fatal(err)
	}
	signature := sign(t, signer, form)
	signed := [2]any{meaningOf(t, planText), meaningOf(t, noteText)}
	r := mathrand.New(mathrand.NewPCG(1, uint64(rounds)))
	valid, accepted := 0, 0
	for range rounds {
		plan, note, text := planText, noteText, signature
		switch r.IntN(8) {
		case 0:
			text = []byte(mutated(r, string(signature)))
		case 1, 2:
			note = mutated(r, note)
		default:
			plan = mutated(r, plan)
		}
		form, err := formOf(plan, note)
		if err != nil {
			continue
		}
		valid++
		if _, f := signing.Verify(text, form, keys); f != nil {
			continue
		}
		if accepted++; !reflect.DeepEqual([2]any{meaningOf(t, plan), meaningOf(t, note)}, signed) {
			t.Fatalf("accepted: %s\nwith %s", plan, note)
		}
	}
	if valid < rounds/20 || accepted == 0 {
		t.Errorf("of %d mutations %d are valid and %d accepted: want more of both", rounds, valid, accepted)
	}
	t.Logf("%d mutations, %d valid chains, %d accepted, which mean the same", rounds, valid, accepted)
}

// mutated changes a text in one to three places.
func mutated(r *mathrand.Rand, text string) string {
	const alphabet = ` "{}[]:,$.0123456789eE+-\/abcdefnrstu_ABCDEFNRSTU` + "\n\t\x00\u00e9"
	b := []byte(text)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b))
		switch r.IntN(7) {
		case 0:
			b[at] = alphabet[r.IntN(len(alphabet))]
		case 1:
			b = append(b[:at], append([]byte{alphabet[r.IntN(len(alphabet))]}, b[at:]...)...)
		case 2:
			b = append(b[:at], b[at+1:]...)
		case 3: // two tokens change places
			words := bytes.FieldsFunc(b, func(c rune) bool { return strings.ContainsRune(`"{}[]:, `, c) })
			one, two := words[r.IntN(len(words))], words[r.IntN(len(words))]
			b = bytes.Replace(b, bytes.Clone(one), bytes.Clone(two), 1)
		case 4: // white space, which means nothing
			if i := bytes.IndexByte(b[at:], ','); i >= 0 {
				b = append(b[:at+i+1], append([]byte(" \n"), b[at+i+1:]...)...)
			}
		case 5: // another spelling of a letter
			if c := b[at]; c >= 'a' && c <= 'z' {
				b = append(b[:at], append(fmt.Appendf(nil, `\u%04x`, c), b[at+1:]...)...)
			}
		case 6: // another spelling of numbers, or another number
			old := []string{"1.50", "100", "40", ":1,"}[r.IntN(4)]
			b = bytes.Replace(b, []byte(old), []byte([]string{"1.5", "150e-2", "1.05", "1e2", "4.0e1", "10", ":1.0,", ":2,"}[r.IntN(8)]), 1)
		}
	}
	return string(b)
}

// meaningOf returns what a chain says, whatever its spelling: without what does nothing, with each call as fn and args, and with exact
// numbers.
func meaningOf(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var chain map[string]any
	if err := d.Decode(&chain); err != nil {
		t.Fatal(err)
	}
	delete(chain, "description")
	delete(chain, "$schema")
	list, _ := chain["steps"].([]any)
	for _, step := range list {
		longForm(step)
		if step, ok := step.(map[string]any); ok {
			longForm(step["undo"])
		}
	}
	return exact(chain)
}

// longForm writes fn and args for the name of a function.
func longForm(v any) {
	step, _ := v.(map[string]any)
	for name, args := range step {
		if _, isObject := args.(map[string]any); isObject && strings.Contains(name, ".") {
			delete(step, name)
			step["fn"], step["args"] = name, args
		}
	}
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, ok := new(big.Rat).SetString(v.String()); ok {
			return "number " + n.String()
		}
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}

// BenchmarkVerify verifies a plan of 10 KB with one key, from the text of its file.
func BenchmarkVerify(b *testing.B) {
	var list []string
	for n := 0; len(strings.Join(list, ",")) < 10_000; n++ {
		list = append(list, fmt.Sprintf(`{"fn":"shop.order.get","args":{"id":"$input.order","page":%d,"fields":["id","email"]},"when":"$input.order != 'x%d'"}`, n, n))
	}
	text := `{"params":{"order":{"type":"string"}},"steps":[` + strings.Join(list, ",") + `]}`
	fn, faults := chain.Saved("refund", []byte(text), &chain.Options{})
	if len(faults) > 0 {
		b.Fatal(faults)
	}
	saved := func(name string) *steps.SavedChain {
		if name == "chain.refund" {
			return fn.Saved
		}
		return nil
	}
	form, f := chain.SignedForm("chain.refund", saved)
	if f != nil {
		b.Fatal(f)
	}
	signer, _ := newSigner(b)
	signature, keys := sign(b, signer, form), []*signing.Key{signer.Key}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		form, f := chain.SignedForm("chain.refund", saved)
		if f != nil {
			b.Fatal(f)
		}
		if key, f := signing.Verify(signature, form, keys); f != nil || key.ID != signer.Key.ID {
			b.Fatalf("%+v, %v", key, f)
		}
	}
}
