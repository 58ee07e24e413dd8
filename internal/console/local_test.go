package console_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
)

// TestCommands: the console of this machine shows commands that do the same; that of a server, whose viewers are elsewhere, shows none.
func TestCommands(t *testing.T) {
	t.Parallel()
	all := actor("token:ann")
	all.All = true
	var backend *console.Backend
	s := newShop(t, map[string]*console.Viewer{"ann": all}, func(b *console.Backend) { backend = b })
	ann := s.browser(t, "ann")
	run, _ := s.run(t, "token:ann", onePut)
	commands := map[string]string{"": "In a terminal", "runs/" + run: "onecall runs", "runs/" + run + "/approve": "onecall approve"}
	for path, command := range commands {
		_, page := ann.get(path)
		wantText(t, page, command)
	}
	backend.Serves = true
	for path := range commands {
		_, page := ann.get(path)
		wantText(t, page, run, "!In a terminal", "!On a command line", "!<code>onecall", "!As commands")
	}
}

// TestOneCall: a run without a name is listed by the functions that it calls, and a page about one call offers no choice of calls.
func TestOneCall(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	run, _ := s.run(t, "token:ann", `{"steps":[{"fn":"shop.put","args":{"k":1}}]}`)
	_, page := ann.get("")
	wantText(t, page, run, "<td>shop.put</td>")
	_, page = ann.get("runs/" + run + "/approve")
	wantText(t, page, "1 call", ">Approve</button>", ">Deny</button>", "!the chosen", "!keep waiting", `!type="checkbox"`)
}
