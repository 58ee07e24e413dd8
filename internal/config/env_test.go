package config

import (
	"os"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// testEnvironment is the environment for ${VAR} in tests.
var testEnvironment = map[string]string{
	"TOKEN": "tok-0123456789", "HOST": "api.example.com", "EMPTY": "", "DIR": "/srv/data", "PASSWORD": "pass word 1", "SHORT": "abc",
	"NAME_OF": "visible-name", "ProgramFiles(x86)": "C:\\Programs",
}

func decodeIn(environment map[string]string, name, text string) (*File, []*fault.Error) {
	return Parse(name, []byte(text), func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
}

func decodeConfig(name, text string) (*File, []*fault.Error) {
	return Parse(name, []byte(text), os.LookupEnv)
}

// mustDecode reads a configuration that has no faults.
func mustDecode(t *testing.T, text string) *File {
	t.Helper()
	c, faults := decodeIn(testEnvironment, "/etc/onecall/onecall.yaml", text)
	if len(faults) > 0 {
		t.Fatalf("%s: got faults %v, want none", text, faults)
	}
	return c
}

func TestVariables(t *testing.T) {
	t.Parallel()
	v := &variables{folder: "/etc/onecall", lookup: func(name string) (string, bool) {
		value, ok := testEnvironment[name]
		return value, ok
	}}
	for written, want := range map[string]string{
		"": "", "plain $TOKEN $ {x} }": "plain $TOKEN $ {x} }", "${SHORT}": "abc", "a${SHORT}b${SHORT}": "aabcbabc",
		"${NONE:-x y}": "x y", "${NONE:-}": "", "${EMPTY:-x}": "", "${SHORT:-x}": "abc", "${env:SHORT}": "abc", "${env:NONE:-d}": "d",
		"${env:ProgramFiles(x86)}": "C:\\Programs",
		"$${SHORT}":                "$abc", "${": "${", "${SHORT": "${SHORT", "${}": "${}", "${$input.x}": "${$input.x}", "${0.a}": "${0.a}",
		"${a.b} ${SHORT}": "${a.b} abc",
		"${a-b}":          "${a-b}", "${env:}": "${env:}", "${workspaceFolder}/x": "/etc/onecall/x", "${/}": string('/'), "x${${SHORT}": "x${abc",
	} {
		if got, f := v.expand(written); f != nil || got.text != want {
			t.Errorf("%q gives %q, %v; want %q", written, got.text, f, want)
		}
	}
	for written, want := range map[string]string{
		"${NONE}": "NONE", "x${SHORT}${env:NONE}": "NONE", "${input:x}": "${input:", "${A:-${B}}": "${A:-", "${command:x}": "${NAME}",
		"${config:a.b}": "${NAME}", "${file:/x}": "${NAME}",
	} {
		got, f := v.expand(written)
		if f == nil || !strings.Contains(f.Message, want) || got.text != "" {
			t.Errorf("%q gives %q, %v, want no text and a fault with %q", written, got.text, f, want)
		}
	}
}
