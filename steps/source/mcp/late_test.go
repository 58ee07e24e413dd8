package mcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// The answers of a server that receives both greetings.
const (
	lateDiscovered = `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
	lateUnknown    = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`
	lateDuplicate  = `{"jsonrpc":"2.0","id":%s,"error":{"code":0,"message":"duplicate \"initialize\" received"}}`
	lateWelcome    = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"late","version":"0"}}}`
)

// playLate is a server that does not answer server/discover until it has received initialize. Then it answers in the given order: 0 means
// server/discover, 1 means initialize. When it is greeted again, it answers immediately.
func playLate(discovered, initialized string, order ...int) func() {
	return func() {
		var discover gjson.Result
		greeted := 0
		serveRaw(func(method string, id, params gjson.Result) {
			switch {
			case method == "server/discover" && greeted == 0:
				discover = id
				greeted++
			case method == "server/discover":
				printLine(lateDiscovered, id.Raw)
			case method == "initialize":
				for _, index := range order {
					printLine([...]string{discovered, initialized}[index], [...]gjson.Result{discover, id}[index].Raw)
				}
			case !answerGreeting(method, id, `{"name":"meta"}`):
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%q}]}}`, id.Raw,
					params.Get("_meta").Raw)
			}
		})
	}
}

var lateServers = map[string]func(){
	"late":               playLate(lateDiscovered, lateDuplicate, 0, 1),
	"late, out of order": playLate(lateDiscovered, lateDuplicate, 1, 0),
	"late, of both":      playLate(lateDiscovered, lateWelcome, 0, 1),
	"late, old":          playLate(lateUnknown, lateWelcome, 0, 1),
	"late, refuses":      playLate(lateUnknown, lateDuplicate, 1, 0),
	"refuses":            playLate("", lateDuplicate, 1),
}

// TestLateGreeting: a server that starts too slowly for server/discover also gets initialize, and may refuse that because it got both. It
// still becomes ready, in the process that was started first.
func TestLateGreeting(t *testing.T) {
	t.Parallel()
	const current, none = `2026-07-28`, `""`
	for _, c := range []struct {
		kind string
		meta string // a member of a call's _meta, which shows the MCP version
	}{
		{"slow", ""}, // like the SDK's servers, which answer both greetings concurrently
		{"late", current},
		{"late, out of order", current},
		{"late, of both", none},
		{"late, old", none},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "starts")
			s, _ := openBad(t, c.kind, func(o *mcpsource.Options) { o.Env["STARTS"] = file })
			await(t, s, steps.StateReady, steps.StateRetrying, steps.StateFailed)
			if got := mustCall(t, s, "shelf.meta", `{}`); !strings.Contains(strings.ReplaceAll(got, `\`, ""), c.meta) {
				t.Errorf("the call was sent with _meta %s, want %s", got, c.meta)
			}
			_ = s.Close()
			if starts, err := os.ReadFile(file); err != nil || string(starts) != "begun left " {
				t.Errorf("got process log %s, %v, want one process that exits by itself", starts, err)
			}
		})
	}
}

// TestLateRefusal: a refusal is reported as such, whether or not the server answers server/discover.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"late, refuses", "refuses"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, _ := openBad(t, kind, nil)
			status := await(t, s, steps.StateReady, steps.StateRetrying, steps.StateFailed)
			if f := status.Error; f == nil || f.Code != fault.Unavailable || !strings.Contains(f.Message, "it refused the connection: duplicate") {
				t.Errorf("got status %+v, want the refusal", status)
			}
		})
	}
}
