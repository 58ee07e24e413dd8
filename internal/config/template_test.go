package config

import (
	"slices"
	"strings"
	"testing"
)

// TestTemplateValues: the value of a variable never becomes part of an endpoint's template. The fault shows only the variable's name.
func TestTemplateValues(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"A": "$input.hidden", "B": "x ${$hidden}", "C": "{hidden}", "D": "hidden}", "E": "$hidden",
		"F": "input.hidden", "OK": "plain$1", "OTHER": "x"}
	const at = "http:\n endpoints:\n  e: {url: 'https://h/x', "
	faulty := []string{
		"http:\n endpoints:\n  e: {url: 'https://h/${C}'}", "http:\n endpoints:\n  e: {url: 'https://h/{q}/${OK}/${D}'}",
		at + "headers: {X-Api-Key: '${A}'}}", at + "headers: {X-Api-Key: '${B}'}}", at + "headers: {X-Other: 'a ${C}'}}", at +
			"headers: {X-Other: '$${F}'}}",
		at + "query: {q: '${A}'}}", at + "query: {q: [1, '${E}']}}", at + "body: {q: {r: ['x ${B}']}}}", at + "body: '${A}'}", at +
			"body: {q: '$${F}'}}",
	}
	for _, text := range faulty {
		_, faults := decodeIn(environment, "onecall.yaml", text)
		if len(faults) != 1 || faults[0].Line != 3 || strings.Contains(faults[0].Message, "hidden") ||
			!strings.Contains(faults[0].Message, "the variable ") {
			t.Errorf("%s: %v", text, faults)
		}
	}
	for _, text := range []string{
		"http:\n endpoints:\n  e: {url: 'https://h/${OK}/{q}'}", at + "headers: {X-Api-Key: '${OK}', X-Other: '${E} ${$input.x}'}}", at +
			"query: {q: '${OK} ${$input.q}'}}",
		"functions: {a.b: {defaults: {q: '${A}'}}}", "mcpServers: {a: {command: '${A}', args: ['${C}']}}",
	} {
		if _, faults := decodeIn(environment, "onecall.yaml", text); len(faults) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

// TestEndpointCredentials: the credential of an endpoint comes from a variable or from the caller.
func TestEndpointCredentials(t *testing.T) {
	t.Parallel()
	const at = "http: {endpoints: {e: {url: 'https://h/x', "
	for _, text := range []string{
		at + "headers: {Authorization: 'Bearer plain1secret $input.q'}}}}", at + "headers: {Authorization: 'Bearer plain1secret ${$input.q}'}}}}",
		at + "headers: {Authorization: 'plain1secret$input.'}}}}", at + "headers: {X-Api-Key: '$input.q plain1secret'}}}}",
		at + "query: {api_key: plain1secret}}}}", at + "query: {api_key: '${TOKEN:-plain1secret}'}}}}",
		"http: {endpoints: {e: {url: 'https://h/x?api_key=plain1secret&b=1'}}}",
		"http: {endpoints: {e: {url: 'https://h/{x}?b={b}&api_key=plain1secret{&y}'}}}",
		"http: {endpoints: {e: {url: 'https://h/x?api_key=${TOKEN:-plain1secret}'}}}",
	} {
		c, faults := decodeIn(testEnvironment, "onecall.yaml", text)
		if len(faults) != 1 || !strings.Contains(faults[0].Message, "a credential must not stand") || faults[0].Line != 1 ||
			strings.Contains(string(c.Text), "plain1") {
			t.Errorf("%s: %v\n%s", text, faults, c.Text)
		}
	}
	mustDecode(t, at+"headers: {Authorization: 'Bearer ${$input.q}', X-Api-Key: $input.key, X-Token: '${TOKEN}', X-Auth: 'Token "+
		"token=${$input.a}'}, query: {api_key: '${TOKEN}', token: $input.t}}}}")
	c := mustDecode(t,
		"http: {endpoints: {e: {url: 'https://h/x?api_key=${TOKEN}&token={token}{&key}'}}}\nfunctions: {'a.*': {defaults: {n: 1.50, "+
			"password: '${NAME_OF}', at: 'on ${HOST}', ref: '${0.a}', list: ['${PASSWORD}']}}}")
	if got, want := string(c.Functions[0].Config.Defaults),
		`{"n":1.50,"password":"visible-name","at":"on api.example.com","ref":"${0.a}","list":["pass word 1"]}`; got != want {
		t.Errorf("defaults %s, want %s", got, want)
	}
	if want := []string{"pass word 1", "tok-0123456789", "visible-name", "word 1"}; !slices.Equal(c.Secrets, want) {
		t.Errorf("secrets %q", c.Secrets)
	}
	if _, faults := decodeIn(nil, "onecall.yaml", "functions:\n  a.b: {defaults: {x: [1, '${NOPE}']}}"); !slices.Equal(pathsOf(faults),
		[]string{"2:27 bad_request /functions/a.b/defaults/x/1"}) {
		t.Errorf("faults %q", pathsOf(faults))
	}
}
