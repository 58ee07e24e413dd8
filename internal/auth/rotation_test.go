package auth_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// TestRotation runs the sections of ../../testdata/auth/rotation.txtar in fake time. The name of a section says whether its keys are at a
// URL or in a file. Its lines are
//
//	keys NAME…      replaces the keys; other signs with the id of rsa
//	text JSON       replaces the key set with this text, written in place
//	cut PART        cuts the key set to a part of its bytes
//	remove          removes the file
//	down, up        stops the key server, or starts it again
//	at URL          sets the URL of the keys in the issuer's metadata
//	wait DURATION   lets time pass
//	> NAME          checks a token signed by a key; forged is signed by another key than it names
//	fetches         prints how often the keys were fetched
//
// and the lines with < are the results: ok or the code of the error, and what is logged.
func TestRotation(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "../../testdata/auth/rotation.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) (got string) {
			r := &rotation{issuer: bubbleIssuer}
			if strings.HasPrefix(section.Name, "file") {
				r.issuer, r.file = "ours", filepath.Join(t.TempDir(), "keys.json")
			}
			synctest.Test(t, func(t *testing.T) { got = r.replay(t, string(section.Data)) })
			return got
		})
	})
}

// rotation is an issuer of tokens, with a table that has its keys.
type rotation struct {
	issuer, file string // file "": the keys are at a URL
	server       keyServer
	whole        string      // the key set, before it is cut
	known        *auth.Table // opened by the first check
	log          logBuffer
	logged       int // bytes of the log that were shown
}

func (r *rotation) replay(t *testing.T, script string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "< ") {
			continue
		}
		out.WriteString(line)
		command, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if result := r.do(t, command, rest); result != "" {
			out.WriteString("< " + result + "\n")
		}
		synctest.Wait()
		for _, match := range logLine.FindAllStringSubmatch(r.log.String()[r.logged:], -1) {
			out.WriteString("< " + match[1] + " " + match[2] + "\n")
		}
		r.logged = len(r.log.String())
	}
	return out.String()
}

// logLine matches the level and the message of a log line.
var logLine = regexp.MustCompile(`level=(\w+) msg="([^"]*)"`)

// do runs one command, and returns its result.
func (r *rotation) do(t *testing.T, command, rest string) string {
	switch command {
	case "keys":
		keys := map[string]map[string]any{"rsa": rsaPair.jwk(nil), "ec": ecPair.jwk(nil), "other": rsaOther.jwk(map[string]any{"kid": "rsa"})}
		var set []map[string]any
		for name := range strings.FieldsSeq(rest) {
			set = append(set, keys[name])
		}
		r.whole = jwks(append([]map[string]any{}, set...)...)
		r.write(t, r.whole, true)
	case "text":
		r.write(t, rest, false)
	case "cut":
		part := must(strconv.ParseFloat(rest, 64))
		r.write(t, r.whole[:int(part*float64(len(r.whole)))], false)
	case "remove":
		_ = os.Remove(r.file)
	case "down":
		r.server.set(func(s *keyServer) { s.err = http.ErrServerClosed })
	case "up":
		r.server.set(func(s *keyServer) { s.err = nil })
	case "at":
		r.server.set(func(s *keyServer) { s.endpoint = rest })
	case "wait":
		time.Sleep(must(time.ParseDuration(rest)))
	case "fetches":
		return strconv.Itoa(r.server.count())
	case ">":
		return r.check(t, rest)
	default:
		t.Fatalf("unknown command %q", command)
	}
	return ""
}

// write sets the key set. A file is written in place, or replaced by renaming another one.
func (r *rotation) write(t *testing.T, text string, rename bool) {
	r.server.set(func(s *keyServer) { s.keys = text })
	if r.file == "" {
		return
	}
	name := r.file
	if rename {
		name += "~"
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name, r.file); err != nil {
		t.Fatal(err)
	}
}

func (r *rotation) check(t *testing.T, name string) string {
	if r.known == nil {
		r.known = table(t, r.issuer, r.file, r.log.setIn, func(o *auth.Options) {
			if r.file == "" {
				o.Client = &http.Client{Transport: &r.server}
			}
		})
	}
	tokens := map[string]string{"rsa": rsaPair.plain(r.issuer), "ec": ecPair.plain(r.issuer),
		"forged": rsaOther.token(rsaPair.header(), goodClaims(r.issuer, nil))}
	if _, err := r.known.Verify(t.Context(), tokens[name]); err != nil {
		return string(fault.CodeOf(err))
	}
	return "ok"
}
