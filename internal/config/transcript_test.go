package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/internal/transcript"
)

// TestTranscripts reads the configurations of ../../testdata/config. Their first section is the environment; each other one holds
// configurations, YAML or JSON by its name, and after each, in lines with <, the result: its faults, or else
//
//	warning, unset      settings without effect, and sources that lack a variable
//	/pointer value      each setting, after variables are expanded and paths are resolved
//	secret              a value that must not leave onecall
//	variable            a variable that is used, and whether its value is secret
//
// and the lines that init shows differently than written.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "../../testdata/config/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		if len(archive.Files) == 0 || archive.Files[0].Name != "environment" {
			t.Fatal("the first section must be environment")
		}
		environment := map[string]string{}
		for line := range strings.Lines(string(archive.Files[0].Data)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			environment[name] = value
		}
		transcript.Replay(t, archive.Files[1:], func(t *testing.T, section *txtar.File) string {
			var out strings.Builder
			for _, one := range configurations(string(section.Data)) {
				out.WriteString(one.text + decodeResult(t, environment, section.Name, one.text))
			}
			return out.String()
		})
	})
}

// configuration is a configuration in a section: its text and the result.
type configuration struct{ text, decodeResult string }

func configurations(section string) (list []configuration) {
	ended := true
	for line := range strings.Lines(section) {
		decodeResult := strings.HasPrefix(line, "<")
		if ended && !decodeResult {
			list = append(list, configuration{})
		}
		ended = decodeResult
		if one := &list[len(list)-1]; decodeResult {
			one.decodeResult += line
		} else {
			one.text += line
		}
	}
	return list
}

// hidden are words of the transcripts' secrets. Nothing that is shown to a person may contain one.
var hidden = []string{"plain-secret", "in-secret", "plain1", "hidden", "usr-name", "tok-0123456789", "oc_d2hv", "IHRoaXMg", "literal-",
	"header-value", "disabled-secret", "query-secret"}

// decodeResult returns the result of a configuration, in lines.
func decodeResult(t *testing.T, environment map[string]string, name, text string) string {
	t.Helper()
	c, faults := decodeIn(environment, "/etc/onecall/"+name, text)
	var out []string
	for _, f := range faults {
		out = append(out, fmt.Sprintf("%d:%d %s %s: %s", f.Line, f.Column, f.Code, f.At, f.Message))
		if len(f.Nearest) > 0 {
			out = append(out, fmt.Sprintf("  nearest: %s", strings.Join(f.Nearest, ", ")))
		}
	}
	for _, f := range c.Warnings {
		out = append(out, fmt.Sprintf("%d:%d warning %s: %s", f.Line, f.Column, f.At, f.Message))
	}
	if len(faults) == 0 {
		for i, line := range strings.Split(string(c.Redacted), "\n") {
			if line != strings.Split(text, "\n")[i] {
				out = append(out, strings.TrimSpace("shown: "+line))
			}
		}
	}
	for _, word := range hidden {
		if all := strings.Join(out, "\n"); strings.Contains(all, word) {
			t.Errorf("%s\nis reported with a secret:\n%s", text, all)
		}
	}
	if len(faults) == 0 {
		for _, at := range slices.Sorted(maps.Keys(c.Unset)) {
			out = append(out, fmt.Sprintf("unset %s: %s: %s", at, c.Unset[at].At, c.Unset[at].Message))
		}
		c.resolvePaths()
		out = appendSettings(out, "", reflect.ValueOf(c.Config))
		for _, secret := range c.Secrets {
			out = append(out, fmt.Sprintf("secret %q", secret))
		}
		for _, v := range c.Variables {
			out = append(out, "variable "+v.Name+map[bool]string{true: ": secret", false: ": not secret"}[v.Secret])
		}
	}
	if len(out) == 0 {
		return "< nothing\n"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll("< "+strings.Join(out, "\n< ")+"\n", `"`+home+`/`, `"HOME/`)
}

// appendSettings appends a line for each setting that is set.
func appendSettings(out []string, at string, v reflect.Value) []string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case json.RawMessage:
		if value != nil {
			out = append(out, at+" "+string(value))
		}
		return out
	case time.Duration:
		return append(out, at+" "+value.String())
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := "/" + v.Type().Field(i).Tag.Get("yaml")
			if name == "/" { // the name and the settings of a table's entry
				name = ""
			}
			out = appendSettings(out, at+name, v.Field(i))
		}
		return out
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			key, entry := fmt.Sprint(i), v.Index(i)
			if config := entry.FieldByName("Config"); config.IsValid() {
				key, entry = entry.FieldByName("Name").String(), config
			}
			out = appendSettings(out, at+"/"+key, entry)
		}
		return out
	case (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.IsNil():
		return out
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	return append(out, at+" "+string(text))
}
