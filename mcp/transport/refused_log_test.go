package transport_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestRepeatedRefusals: repeated refusals are logged now and then and counted each time; one caller's lines do not suppress
// another's.
func TestRepeatedRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged logLines
		var counted refusalCounts
		s := serve(t, func(o *transport.Options) { o.Log, o.Refused = logged.log(slog.LevelInfo), counted.refused })
		url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
		const perCaller = 20
		for range perCaller {
			for _, token := range []string{"ann", "bob"} {
				mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer " + token, "Mcp-Session-Id": "made up"})
			}
		}
		for _, caller := range []string{"token:ann", "token:bob"} {
			n := 0
			for _, line := range logged.lines("refused") {
				if strings.Contains(line, "reason=session caller="+caller+" remote=") {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d lines for %d refused requests of %s, want 1", n, perCaller, caller)
			}
		}
		if n := counted.count("session"); n != 2*perCaller {
			t.Errorf("%d refusals are counted, want %d", n, 2*perCaller)
		}
	})
}

// TestSuppressedLogCount: the next line says how many were left out.
func TestSuppressedLogCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged logLines
		s := serve(t, func(o *transport.Options) { o.Log, o.CallerCalls = logged.log(slog.LevelInfo), 1 })
		url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
		slow := slowCall(t, s, url, "ann", true)
		for _, n := range []int{100, 1, 7} {
			for range n {
				mcptest.Send(t, "POST", url, echo, echoHeaders("ann"))
			}
			time.Sleep(10 * time.Second)
		}
		var got []string
		for _, line := range logged.lines("refused") {
			_, rest, _ := strings.Cut(line, "reason=")
			got = append(got, strings.Replace(rest, " remote=?", "", 1))
		}
		if want := "busy caller=token:ann|busy caller=token:ann left_out=99|busy caller=token:ann"; strings.Join(got, "|") != want {
			t.Errorf("%q, want %q", got, want)
		}
		s.shop.finish <- struct{}{}
		<-slow
	})
}

// TestRefusedRemote: the log shows where a refused request came from, and nothing of its token.
func TestRefusedRemote(t *testing.T) {
	t.Parallel()
	var logged logLines
	s := serve(t, func(o *transport.Options) { o.Log = logged.log(slog.LevelInfo) })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	const secret = "oc_s3cr3t-of-a-client"
	for i, headers := range []mcptest.Header{
		{"Authorization": "Bearer " + secret},
		{"Authorization": "Bearer scopeless", "X-Forwarded-For": "203.0.113.7, 2001:db8::1"},
		{"Authorization": "Bearer " + secret, "X-Forwarded-For": secret + ", 198.51.100.4:4711, fe80::1%" + secret + ", [2001:db8::2]:80"},
		{"Authorization": "Bearer " + secret, "X-Forwarded-For": strings.Repeat("192.0.2.1, ", 1000) + "192.0.2.2"},
		{"Authorization": "Bearer ann", "Host": "evil.example", "X-Forwarded-For": "203.0.113.9"},
	} {
		if r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers); r.StatusCode < 400 {
			t.Errorf("request %d: status %d, want a refusal", i, r.StatusCode)
		}
	}
	const five = `"192.0.2.1, 192.0.2.1, 192.0.2.1, 192.0.2.1, 192.0.2.2"`
	tokens := strings.Join(logged.lines("a token was refused"), "\n")
	for _, want := range []string{
		"reason=token remote=127.0.0.1 error=", `reason=scope remote=127.0.0.1 forwarded="203.0.113.7, 2001:db8::1" error=insufficient_scope`,
		`forwarded="?, 198.51.100.4, fe80::1, 2001:db8::2"`, "forwarded=" + five,
	} {
		if !strings.Contains(tokens, want) {
			t.Errorf("the log lacks %q:\n%s", want, tokens)
		}
	}
	hosts := strings.Join(logged.lines("refused"), "\n")
	if !strings.Contains(hosts, "reason=host remote=127.0.0.1 forwarded=203.0.113.9 error=") {
		t.Errorf("the log of the refused host: %s, want reason, remote 127.0.0.1 and forwarded 203.0.113.9", hosts)
	}
	if text := logged.String(); strings.Contains(text, "s3cr3t") {
		t.Errorf("the log shows a token:\n%s", text)
	}
}

// TestRefusedRemoteInSession: the log shows the sender of the refused request, not that of the request that began the session.
func TestRefusedRemoteInSession(t *testing.T) {
	t.Parallel()
	var logged logLines
	s := serve(t, func(o *transport.Options) { o.Log, o.CallerCalls = logged.log(slog.LevelInfo), 1 })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	headers := mcptest.Header{"Authorization": "Bearer ann", "X-Forwarded-For": "203.0.113.1"}
	r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, headers)
	headers["Mcp-Session-Id"], headers["X-Forwarded-For"] = r.Header.Get("Mcp-Session-Id"), "203.0.113.2"
	slow := slowCall(t, s, url, "ann", true)
	for range 3 {
		mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"info","arguments":{}}}`, headers)
	}
	if all := logged.lines("refused"); len(all) != 1 || !strings.Contains(all[0],
		"reason=busy caller=token:ann remote=127.0.0.1 forwarded=203.0.113.2") {
		t.Errorf("got %q, want one line with the second sender", all)
	}
	s.shop.finish <- struct{}{}
	<-slow
}

// TestRefusedTokensDoNotFillLog: refused tokens do not fill the log.
func TestRefusedTokensDoNotFillLog(t *testing.T) {
	t.Parallel()
	var log syncbuf.Buffer
	s := serve(t, func(o *transport.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	for range 5 {
		for token, status := range map[string]int{"unknowable": 503, "junk": 401, "ann": 200} {
			if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer " + token}); r.StatusCode != status {
				t.Errorf("%s: %d %s, want %d", token, r.StatusCode, body, status)
			}
		}
	}
	if text := log.String(); strings.Contains(text, "checked") {
		t.Errorf("unchecked tokens are logged: %s", text)
	}
}
