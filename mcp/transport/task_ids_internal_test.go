package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// FuzzTaskIDs: a message of subscriptions/listen keeps all that it says, and has the ids of tasks in its _meta as well. The SDK reads the
// same of it, unless it says something twice.
func FuzzTaskIDs(f *testing.F) {
	for _, params := range []string{`{"notifications":{"taskIds":["run_a"],"toolsListChanged":true},"_meta":{"a/b":"c"}}`,
		`{"notifications":{}}`,
		`{"notifications":{"taskIds":null}}`, `{"notifications":{"taskIds":5}}`, `{"_meta":{},"notifications":{"taskIds":[]}}`, `{}`, `[]`} {
		f.Add(params)
	}
	f.Fuzz(func(t *testing.T, params string) {
		message := []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":` + params + `}`)
		var sent struct {
			Params struct {
				Notifications map[string]any `json:"notifications"`
				Meta          map[string]any `json:"_meta"`
			} `json:"params"`
		}
		got := sent
		isTwice := strings.Count(strings.ToLower(params), "notifications") > 1 || strings.Count(strings.ToLower(params), "_meta") > 1
		if isTwice || strings.Contains(params, `\`) || json.Unmarshal(message, &sent) != nil ||
			gjson.GetBytes(message, "params.notifications.taskIds").Raw == "" {
			return
		}
		kept := keepTaskIDs(message)
		if err := json.Unmarshal(kept, &got); err != nil {
			t.Fatalf("%s becomes %s: %v", message, kept, err)
		}
		ids := gjson.GetBytes(kept, "params._meta."+gjson.Escape(MetaTaskIDs)).Raw
		if want := gjson.GetBytes(message, "params.notifications.taskIds").Raw; ids != want {
			t.Errorf("%s has the ids %s in _meta, want %s", kept, ids, want)
		}
		delete(got.Params.Meta, MetaTaskIDs)
		delete(sent.Params.Meta, MetaTaskIDs)
		if len(sent.Params.Meta) == 0 {
			sent.Params.Meta, got.Params.Meta = nil, nil
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("%s becomes %s: %s", message, kept, diff)
		}
	})
}

// TestTaskIDsInOddParams: params that the SDK refuses stay as they are, and so do those without ids.
func TestTaskIDsInOddParams(t *testing.T) {
	t.Parallel()
	for params, changes := range map[string]bool{
		`{"notifications":{"taskIds":["a"]},"_meta":"x"}`: false, `{"notifications":{"taskIds":["a"]},"_meta":[1]}`: false,
		`{"notifications":{"taskIds":["a"]},"_meta":null}`: true, `{"notifications":{"taskIds":["a"]}}`: true,
		`{"notifications":{}}`: false, `{"_meta":{"onecall/taskIds":["a"]},"notifications":{"taskIds":["b"]}}`: true,
	} {
		got, changed := withTaskIDs(json.RawMessage(params))
		if changed != changes || !changed && string(got) != params {
			t.Errorf("%s becomes %s, changed %t; want %t", params, got, changed, changes)
		}
		message := `{"id":1,"params":` + params + `}`
		if kept := string(keepTaskIDs([]byte(message))); (kept != message) != changes {
			t.Errorf("%s becomes %s", message, kept)
		}
	}
}

// TestOnlyOwnNotificationsAreOfTasks: a notification made by AsTask is written as one of a task, and nothing else is, whatever its params
// say.
func TestOnlyOwnNotificationsAreOfTasks(t *testing.T) {
	t.Parallel()
	const params = `{"taskId":"run_a","result":{"text":"\"params\":{"}}`
	const before = "event: message\n" + `data: {"jsonrpc":"2.0","method":"`
	own := []byte(before + TaskCarrier + `","params":` + string(AsTask([]byte(params))) + "}\n\n")
	if got, want := string(undisguised(own)), before+`notifications/tasks","params":`+params+"}\n\n"; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
	for _, other := range []string{before + TaskCarrier + `","params":` + params + "}\n\n",
		`{"result":{"text":"` + strings.ReplaceAll(string(disguisedTask), `"`, `\"`) + `"}}`} {
		if got := undisguised([]byte(other)); !bytes.Equal(got, []byte(other)) {
			t.Errorf("%s is written as %s", other, got)
		}
	}
}

// TestMisnamedTask: the header that routes a request about a task must name that task. Other methods are the SDK's to check.
func TestMisnamedTask(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version, method, header string
		refused                 bool
	}{
		{"2026-07-28", "tasks/get", "run_a", false}, {"2026-07-28", "tasks/get", "", true}, {"2025-11-25", "tasks/get", "", false},
		{"", "tasks/get", "", false}, {"2025-11-25", "tasks/get", "run_b", true}, {"2026-07-28", "tasks/update", "chain", true},
		{"2026-07-28", "tools/call", "run_b", false}, {"2026-07-28", "tasks/result", "", false},
	} {
		wrong := misnamedTask(envelope{`7`, test.method}, []byte(`{"params":{"taskId":"run_a"}}`),
			http.Header{"Mcp-Name": {test.header}, "Mcp-Protocol-Version": {test.version}})
		if (wrong != nil) != test.refused || wrong != nil && (wrong.id != "7" || wrong.code != codeHeader) {
			t.Errorf("%+v: %+v", test, wrong)
		}
	}
}
