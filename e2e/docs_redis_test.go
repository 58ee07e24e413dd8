//go:build e2e && unix

package e2e

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

// redisUser matches the Redis user that docs/operate.md creates for onecall.
var redisUser = regexp.MustCompile(`(?m)^user (onecall on >(\S+) .*)$`)

// redisRights returns the words of the line that redisUser matches, and the user's password.
func redisRights(t *testing.T) (words []string, password string) {
	t.Helper()
	text, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	match := redisUser.FindStringSubmatch(string(text))
	if match == nil {
		t.Fatal("docs/operate.md shows no user for onecall")
	}
	return strings.Fields(match[1]), match[2]
}

// startDocumentRedis starts a Redis with that user and returns its URL. The test fails if Redis denies the user a command, even if onecall
// tolerates that.
func startDocumentRedis(t *testing.T) (url string) {
	t.Helper()
	words, password := redisRights(t)
	server := redistest.Start(t, append([]string{"--user"}, words...)...)
	admin := server.Client(t)
	t.Cleanup(func() {
		denied, err := admin.ACLLog(context.Background(), 10).Result()
		if err != nil {
			t.Error(err)
		}
		for _, entry := range denied {
			t.Errorf("Redis denied the document's user a command: %s %s (%s)", entry.Reason, entry.Object, entry.Context)
		}
	})
	return "redis://onecall:" + password + "@" + server.Address()
}

var calledByScript = regexp.MustCompile(`redis\.p?call\(\s*['"](\w+)['"]`)

// TestDocumentedRedisRights checks that the user may run every command in the scripts, including branches that no test reaches.
func TestDocumentedRedisRights(t *testing.T) {
	t.Parallel()
	words, _ := redisRights(t)
	var scripts []string
	for _, folder := range []string{"budget/redisstore"} {
		luaFiles, err := filepath.Glob("../" + folder + "/*.lua")
		if err != nil || len(luaFiles) == 0 {
			t.Fatalf("%s has no scripts: %v", folder, err)
		}
		scripts = append(scripts, luaFiles...)
	}
	commands := map[string]bool{}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range calledByScript.FindAllStringSubmatch(string(text), -1) {
			command := strings.ToLower(match[1])
			if commands[command] = true; !slices.Contains(words, "+"+command) {
				t.Errorf("%s: docs/operate.md does not grant %s", script, command)
			}
		}
	}
	if len(commands) < 20 {
		t.Errorf("%d scripts call %d commands, want at least 20", len(scripts), len(commands))
	}
}
