package cli

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// shownUser is the user whom docs/operate.md makes for onecall in Redis.
var shownUser = regexp.MustCompile(`(?m)^user (onecall on >(\S+) .*)$`)

// shownRights are the words of that line, and the user's password.
func shownRights(t *testing.T) (words []string, password string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	found := shownUser.FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("docs/operate.md shows no user for onecall")
	}
	return strings.Fields(found[1]), found[2]
}

// shownRedis starts a Redis with that user, and gives its URL. A test in which the user does what it may not fails, even where
// onecall makes do without.
func shownRedis(t *testing.T) (url string) {
	t.Helper()
	words, password := shownRights(t)
	server := redistest.Start(t, append([]string{"--user"}, words...)...)
	admin := server.Client(t)
	t.Cleanup(func() {
		denied, err := admin.ACLLog(context.Background(), 10).Result()
		if err != nil {
			t.Error(err)
		}
		for _, one := range denied {
			t.Errorf("the document's user may not: %s %s (%s)", one.Reason, one.Object, one.Context)
		}
	})
	return "redis://onecall:" + password + "@" + server.Address()
}

var calledByScript = regexp.MustCompile(`redis\.p?call\(\s*['"](\w+)['"]`)

// TestShownRights: the document's user may run every command of the scripts, also of branches that no test goes through.
func TestShownRights(t *testing.T) {
	t.Parallel()
	words, _ := shownRights(t)
	var scripts []string
	for _, folder := range []string{"budget/redisstore"} {
		found, err := filepath.Glob("../../" + folder + "/*.lua")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no scripts: %v", folder, err)
		}
		scripts = append(scripts, found...)
	}
	commands := map[string]bool{}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range calledByScript.FindAllStringSubmatch(string(text), -1) {
			command := strings.ToLower(found[1])
			if commands[command] = true; !slices.Contains(words, "+"+command) {
				t.Errorf("%s: docs/operate.md does not grant %s", script, command)
			}
		}
	}
	if len(commands) < 20 {
		t.Errorf("%d scripts call %d commands: were they found?", len(scripts), len(commands))
	}
}
