package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestConfigSchema: the published schema accepts what the decoder accepts, and refuses what it refuses.
func TestConfigSchema(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text string
		ok   bool
	}{
		{`{}`, true},
		{`{"http":{"allow":["api.example.com"]},"fs":{"root":".","write":[]},"lite":false,
			"budget":{"maxTotalTokens":10000,"maxSteps":1000,"maxCalls":200000,"maxDurationMs":300000},
			"limits":{"maxSteps":1000,"maxConcurrency":16,"maxResultBytes":"64MiB","maxChainBytes":"256MiB","maxRequestBytes":"4MiB","maxElements":100000},
			"results":{"store":"memory","ttl":"5m","maxTtl":"1h","maxBytes":"1GiB","pageSize":20,"probeAbove":0},
			"tokens":{"encoding":"o200k_base","factor":1.0}}`, true},
		{`{"budget":{"maxTotalTokens":0},"limits":{"maxResultBytes":5,"maxChainBytes":"10 KB"},"results":{"ttl":"1h30m"},"fs":null}`, true},
		{`{"budget":{"maxTotalTokens":149}}`, false},
		{`{"budget":{"maxSteps":0}}`, false},
		{`{"limits":{"maxResultBytes":"64mib"}}`, false},
		{`{"limits":{"maxResultBytes":"0MiB"}}`, false},
		{`{"results":{"ttl":"5"}}`, false},
		{`{"results":{"store":"disc"}}`, false},
		{`{"results":{"leanAbove":0}}`, true},
		{`{"results":{"leanAbove":-1}}`, false},
		{`{"surface":"hybrid","groups":{"dcim":["device","rack"],"ipam":{"resources":["prefix"],"description":"d"},"x":{"resources":["y"],"description":null}},"autodispatch":true,"ungrouped":"hide",
			"hoist":["repoId"],"aliases":{"repo_id":"repoId"},"access":{"stdio":"admin","http":"read"}}`, true},
		{`{"surface":null,"groups":null,"autodispatch":null,"ungrouped":null,"hoist":null,"aliases":null,"access":{"stdio":null}}`, true},
		{`{"surface":"chian"}`, false},
		{`{"groups":{"a":[]}}`, false},
		{`{"groups":{"a":{}}}`, false},
		{`{"groups":{"a":"device"}}`, false},
		{`{"groups":{"a":{"resources":["x"],"bogus":1}}}`, false},
		{`{"ungrouped":"show"}`, false},
		{`{"hoist":"repoId"}`, false},
		{`{"access":{"stdio":"none"}}`, false},
		{`{"access":{"tokens":[]}}`, false},
		{`{"access":{"tokens":[{"name":"ci","sha256":"` + someHash + `","tier":"read","functions":["netbox.*"]},{"name":"x","sha256":"` + emptyHash + `"}],
			"jwt":{"issuer":"https://id.example.com","audience":"https://tools.example.com/mcp","keys":"keys.json","scopes":{"onecall.write":"read_write"}},
			"url":"https://tools.example.com/mcp","hosts":["onecall.internal:8080"],"limits":{"calls":256}}}`, true},
		{`{"access":{"url":null,"hosts":null,"limits":null}}`, true},
		{`{"access":{"tokens":null}}`, false},
		{`{"access":{"jwt":null}}`, false},
		{`{"access":{"tokens":[{"name":"ci","sha256":"x","tier":"none"}]}}`, false},
		{`{"access":{"tokens":[{"name":"ci","sha256":"x","functions":[]}]}}`, false},
		{`{"access":{"tokens":[{"name":"ci","sha256":"x","functions":[""]}]}}`, false},
		{`{"access":{"tokens":["oc_x"]}}`, false},
		{`{"access":{"tokens":{"ci":"x"}}}`, false},
		{`{"access":{"jwt":{"issuer":"https://h","audience":"a","scopes":{"s":"reader"}}}}`, false},
		{`{"access":{"jwt":{"issuer":"https://h","audience":"a","scopes":{"s":"read"},"keys":""}}}`, false},
		{`{"access":{"url":""}}`, false},
		{`{"access":{"limits":{"calls":0}}}`, false},
		{`{"access":{"limits":{"calls":-1}}}`, false},
		{`{"session":{"maxTokens":1},"limits":{"maxSessions":1000}}`, true},
		{`{"session":{"timeout":"30"}}`, false},
		{`{"limits":{"maxSessions":0}}`, false},
		{`{"session":{"maxTokens":0}}`, true},
		{`{"session":{"maxTokens":null}}`, true},
		{`{"session":{"maxTokens":-1}}`, false},
		{`{"tokens":{"factor":0}}`, false},
		{`{"fs":{"write":["*"]}}`, false},
		{`{"mcpServers":{}}`, true},
		{`{"surface":"chain"}`, true},
		{`{"mcpServers":{"files":{"command":"npx","args":["-y",1,true],"env":{"A":"b","N":5},"cwd":".","type":"stdio","disabled":false,"enabled":true,"includeTools":["a"],"excludeTools":["b"],
			"start":"lazy","startTimeoutMs":1,"concurrency":1,"roots":true,"autoApprove":[],"envFile":".env"},
			"remote":{"url":"https://h/mcp","headers":{"A":"b"},"transport":"streamableHttp","oauth":{"clientId":"x","scopes":["a"],"callbackPort":1,"authServer":"https://a"}},
			"windsurf":{"serverUrl":"https://h"},"gemini":{"httpUrl":"https://h","timeout":5}},
			"openapi":{"netbox":{"spec":"./netbox.yaml","baseUrl":"https://h","headers":{"A":"b"},"auth":{"s":{"username":"u","password":"${HOME}"}},"include":["dcim.*"],"exclude":["x"],"concurrency":4}},
			"http":{"endpoints":{"w":{"method":"POST","url":"https://h/{x}","headers":{"A":"b"},"query":{"a":1},"body":[1],"input":{},"output":true,"description":"d","effect":"read",
				"idempotent":true,"result":"response","timeoutMs":5}}},
			"functions":{"netbox.*.delete":{"effect":"destroy","tier":"admin","hide":false,"rename":null,"heavy":"auto","defaults":{"a":1},"aliases":{"a":"b"},"description":"d","timeoutMs":30000,"cacheTtl":"60s"}}}`, true},
		{`{"mcpServers":{"a":{"command":"x","bogus":1}}}`, false},
		{`{"mcpServers":{"a":{"command":""}}}`, false},
		{`{"mcpServers":{"a":{"command":"x","type":"stdoi"}}}`, false},
		{`{"mcpServers":{"a":{"command":"x","args":[null]}}}`, false},
		{`{"mcpServers":{"a":{"command":"x","env":{"a":[1]}}}}`, false},
		{`{"mcpServers":{"a":{"command":"x","start":"soon"}}}`, false},
		{`{"mcpServers":{"a":{"url":"https://h","oauth":{"clientid":"x"}}}}`, false},
		{`{"mcpServers":{"a":{"url":"https://h","oauth":{"callbackPort":70000}}}}`, false},
		{`{"openapi":{"a":{"baseUrl":"https://h"}}}`, false},
		{`{"openapi":{"a":{"spec":"x","auth":{"s":{"valu":"x"}}}}}`, false},
		{`{"http":{"endpoints":{"a":{"method":"GET"}}}}`, false},
		{`{"http":{"endpoints":{"a":{"url":"x","method":"FETCH"}}}}`, false},
		{`{"http":{"rate":{"perSecond":1}}}`, false},
		{`{"functions":{"a":{"tier":"none"}}}`, false},
		{`{"functions":{"a":{"defaults":[]}}}`, false},
		{`{"functions":{"a":{"aliases":{"a":1}}}}`, false},
		{`{"lite":"yes"}`, false},
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.text))
		if err != nil {
			t.Fatal(err)
		}
		invalid := schema.Validate(value)
		if (invalid == nil) != test.ok {
			t.Errorf("schema on %s: %v", test.text, invalid)
		}
		if _, faults := decodeConfig("onecall.json", test.text); (len(faults) == 0) != test.ok {
			t.Errorf("decoding %s: %v", test.text, faults)
		}
	}
}

// TestHiddenKeys: the tags of keys determine which values are not shown.
func TestHiddenKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"args": true, "env": true, "headers": true, "auth": true, "oauth": true, "value": true, "token": true, "password": true,
		"clientSecret": true, "sha256": true,
		"tokens": false, "maxTokens": false, "maxTotalTokens": false, "tokenUrl": false, "session": false, "maxSessions": false, "jwt": false,
		"keys": false, "mcpServers": false, "openapi": false,
	} {
		if got, known := hiddenKeys[key]; !known || got != want {
			t.Errorf("%s: hidden is %v, known %v", key, got, known)
		}
	}
}
