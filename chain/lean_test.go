package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// long is a text of more than 100 tokens, in quotes.
var long = `"` + strings.Repeat("a word and another, ", 60) + `"`

// TestLeanSays holds what a lean form may say: nothing that the result does not bear out. "" is the whole result.
func TestLeanSays(t *testing.T) {
	t.Parallel()
	const whole = ""
	e := engineOf(t, writingFunctions(), chain.Options{Lite: true}, true)
	http := func(body string) string {
		return `{"status":200,"headers":{"etag":` + long + `},"body":` + body + `}`
	}
	for name, test := range map[string]struct{ fn, answer, extra, want string }{
		"what destroys need not delete":        {"do.edit", wide(`"id":7,"name":"a"`), "", `{"id":7,"name":"a"}`},
		"nor say so of many":                   {"do.edit", objects(60), "", `{"accepted":60}`},
		"nor of what it does not name":         {"do.edit", wide(`"pid":7`), "", whole},
		"the source says that it deletes":      {"do.revoke", wide(`"id":7`), "", `{"deleted":true,"id":7}`},
		"a deletion without identity":          {"do.destroy", wide(`"pid":7`), "", `{"deleted":true}`},
		"a deletion tells no count of a list":  {"do.destroy", objects(60), "", `{"deleted":true}`}, // it may be what is left
		"nor of one in an object":              {"do.destroy", `{"items":` + objects(60) + `}`, "", `{"deleted":true}`},
		"each of a forEach is one deletion":    {"do.destroy", wide(`"id":7`), `,"forEach":"1..3"`, `{"deleted":3}`},
		"a deletion without a body":            {"do.destroy", http("null"), "", `{"deleted":true,"status_code":200}`},
		"a write without a body":               {"do.write", http("null"), "", whole},
		"a write that answers nothing":         {"do.write", "null", "", whole},
		"what destroys and answers nothing":    {"do.edit", "null", "", whole},
		"deleted false":                        {"do.destroy", wide(`"id":7,"deleted":false`), "", whole},
		"none deleted":                         {"do.destroy", wide(`"deleted":0`), "", whole},
		"deleted false is data of a write":     {"do.write", wide(`"id":7,"deleted":false`), "", `{"id":7}`},
		"locked":                               {"do.destroy", wide(`"deleted":false,"error":"locked","details":[{"a":1}]`), "", whole},
		"success false":                        {"do.destroy", wide(`"success":false`), "", whole},
		"success false of a write":             {"do.write", wide(`"id":7,"Success":false`), "", whole},
		"ok false":                             {"do.write", wide(`"id":7,"ok":false`), "", whole},
		"an error":                             {"do.write", wide(`"id":7,"error":"quota"`), "", whole},
		"an error in the body of HTTP":         {"do.destroy", http(`{"error":{"code":1}}`), "", whole},
		"errors":                               {"do.write", wide(`"errors":` + objects(4)), "", whole},
		"errors is true":                       {"do.write", wide(`"errors":true,"items":[{"a":1}]`), "", whole},
		"no error":                             {"do.destroy", wide(`"id":7,"error":null,"errors":[],"Error":"","success":true`), "", `{"deleted":true,"id":7}`},
		"one of many failed":                   {"do.write", `[{"id":1},{"id":2,"error":` + long + `}]`, "", whole},
		"one of many in an object failed":      {"do.write", wide(`"id":1,"results":[{"id":2,"success":false}]`), "", whole},
		"one deletion of many failed":          {"do.destroy", `[{"id":1},{"deleted":false,"why":` + long + `}]`, "", whole},
		"an element of a forEach failed":       {"do.destroy", wide(`"deleted":false`), `,"forEach":"1..3"`, whole},
		"a forEach of what is not told":        {"do.edit", wide(`"pid":7`), `,"forEach":"1..3"`, whole},
		"a forEach of bare yeses":              {"do.write", "true", `,"forEach":"1..300"`, `{"accepted":300}`},
		"a forEach of bare noes":               {"do.write", "false", `,"forEach":"1..300"`, whole},
		"a forEach of numbers":                 {"do.destroy", "0", `,"forEach":"1..300"`, whole},
		"a forEach of HTTP":                    {"do.destroy", http("null"), `,"forEach":"1..3"`, `{"deleted":3}`},
		"a text":                               {"do.write", long, "", whole},
		"a text of what destroys":              {"do.edit", long, "", whole},
		"a text of a deletion":                 {"do.destroy", long, "", whole},
		"a text in HTTP":                       {"do.destroy", http(long), "", whole},
		"a text in an object of its own":       {"do.destroy", `{"result":` + long + `}`, "", whole},
		"texts":                                {"do.edit", `[` + long + `,{"type":"image"}]`, "", whole},
		"texts of a deletion":                  {"do.destroy", `[` + long + `,"gone"]`, "", whole},
		"texts of a forEach":                   {"do.edit", long, `,"forEach":"1..3"`, whole},
		"a list of no known name":              {"do.write", wide(`"task":{"id":"T1"},"x":[{"a":1}]`), "", whole},
		"what a token is for was not accepted": {"do.write", wide(`"token":"t","repositories":` + objects(3)), "", whole},
		"warnings":                             {"do.write", wide(`"warnings":[{"a":1}]`), "", whole},
		"details":                              {"do.write", wide(`"details":[{"a":1}]`), "", whole},
		"two lists":                            {"do.write", `{"failed":[{"a":1}],"results":` + objects(9) + `}`, "", whole},
		"an empty list":                        {"do.write", wide(`"items":[]`), "", whole},
		"entities":                             {"do.write", `{"entities":` + objects(20) + `}`, "", `{"accepted":20}`},
		"the list of a wrapped result":         {"do.write", `{"result":` + objects(20) + `}`, "", `{"accepted":20}`},
		"an empty id":                          {"do.write", wide(`"id":"","name":""`), "", whole},
		"a dear id":                            {"do.write", wide(`"id":"` + strings.Repeat("𓀀", 49) + `"`), "", whole},
		"a dear id gives way to the url":       {"do.write", wide(`"url":"/x/7","id":"` + strings.Repeat("𓀀", 49) + `"`), "", `{"url":"/x/7"}`},
	} {
		answer := e.Run(t.Context(), []byte(`{"steps":[`+stepOf(test.fn, test.answer, test.extra)+`]}`), nil)
		got := gjson.ParseBytes(answer.JSON)
		if test.want == whole {
			if text := string(answer.JSON); !answer.OK || text != test.answer && !strings.HasPrefix(text, "["+test.answer+",") {
				t.Errorf("%s is answered %.200s", name, text)
			}
			continue
		}
		var fields []string
		got.ForEach(func(key, value gjson.Result) bool {
			if key.Str != "continuation_token" && key.Str != "data_size" {
				fields = append(fields, key.Raw+":"+value.Raw)
			}
			return true
		})
		if lean := "{" + strings.Join(fields, ",") + "}"; lean != test.want || !strings.HasPrefix(got.Get("continuation_token").Str, "oc1_") {
			t.Errorf("%s is answered %.200s, want %s", name, answer.JSON, test.want)
		}
	}
}

// TestLeanOfNothing: a deletion that answers null says that it deleted, and there is nothing to fetch.
func TestLeanOfNothing(t *testing.T) {
	t.Parallel()
	e := engineOf(t, writingFunctions(), chain.Options{Lite: true}, true)
	for request, want := range map[string]string{
		`{"steps":[` + stepOf("do.destroy", "null", "") + `]}`:               `{"deleted":true}`,
		`{"steps":[` + stepOf("do.destroy", "null", "") + `],"verify":true}`: `null`,
		`{"steps":[` + stepOf("do.destroy", "null", "") + `],"return":"$0"}`: `null`,
		`{"steps":[` + stepOf("do.write", "null", "") + `]}`:                 `null`,
	} {
		if answer := e.Run(t.Context(), []byte(request), nil); string(answer.JSON) != want {
			t.Errorf("%s is answered %s, want %s", request, answer.JSON, want)
		}
	}
}

// TestLeanDeletes: a function deletes whose name says so, in any style of names.
func TestLeanDeletes(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string]bool{
		"s.delete_entities": true, "s.deleteRepo": true, "s.repo-delete": true, "s.bulk.Remove": true, "s.file.destroy": true, "s.SQLDelete": true,
		"s.purgeCache": true, "s.drop_table": true, "s.clear": true, "drop": true, "s.item2delete": false, "s.device.delete": true,
		"s.edit_file": false, "s.start_process": false, "s.undelete": false, "s.restore_deleted": false, "s.delete.undo": false, "delete.put": false,
		"browser.browser_drop": false, "s.eyedropper": false, "s.isClear": false,
	} {
		e := engineOf(t, []steps.Function{answering(steps.Spec{Name: name, Effect: steps.Destroy, EffectDeclared: true})}, chain.Options{}, true)
		args, _ := json.Marshal(map[string]string{"answer": wide(`"id":7`)})
		lite := true
		answer := e.Call(context.Background(), &chain.Call{Function: name, Args: args, Lite: &lite}, nil)
		if got := gjson.GetBytes(answer.JSON, "deleted"); !answer.OK || got.Exists() != deletes {
			t.Errorf("%s: %.200s", name, answer.JSON)
		}
	}
	// What was declared as a mere write, or by the configuration as one, is none, whatever its name.
	e := engineOf(t, []steps.Function{answering(steps.Spec{Name: "s.delete", EffectDeclared: true, Deletes: true})},
		chain.Options{Lite: true}, true)
	answer := e.Run(t.Context(), []byte(`{"steps":[`+stepOf("s.delete", wide(`"id":7`), "")+`]}`), nil)
	if gjson.GetBytes(answer.JSON, "deleted").Exists() || gjson.GetBytes(answer.JSON, "id").Int() != 7 {
		t.Errorf("a write: %.200s", answer.JSON)
	}
}

// TestLeanProbe: what has no lean form and does not fit is a probe like any other result.
func TestLeanProbe(t *testing.T) {
	t.Parallel()
	e := engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 300}, true)
	for _, answer := range []string{long, wide(`"error":"locked","more":` + long), `[` + long + `,` + long + `]`} {
		for _, fn := range []string{"do.edit", "do.destroy"} {
			got := e.Run(t.Context(), fmt.Appendf(nil, `{"budget":{"maxTotalTokens":200},"lite":true,"steps":[%s]}`, stepOf(fn, answer, "")), nil)
			if !got.OK || !gjson.GetBytes(got.JSON, "preview").Exists() {
				t.Errorf("%s: %.300s", fn, got.JSON)
			}
		}
	}
}
