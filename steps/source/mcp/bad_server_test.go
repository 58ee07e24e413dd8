package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"strings"
	"syscall"

	"github.com/tidwall/gjson"
)

// answerText is the last message that a raw server received.
var answerText string

// serveRaw plays a server without the SDK: answer receives each request, and writes anything.
func serveRaw(answer func(method string, id, params gjson.Result)) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		m := gjson.Parse(in.Text())
		answerText = in.Text()
		answer(m.Get("method").Str, m.Get("id"), m.Get("params"))
	}
}

func printLine(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// answerGreeting answers the requests before the first call; false if the method is another.
func answerGreeting(method string, id gjson.Result, tools string) bool {
	switch method {
	case "server/discover":
		printLine(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, id.Raw)
	case "initialize":
		printLine(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"0"}}}`, id.Raw)
	case "tools/list":
		printLine(`{"result":{"tools":[%s]},"jsonrpc":"2.0","id":%s}`, tools, id.Raw)
	case "tools/call":
		return false
	}
	return true
}

// serveTool greets, and answers each call of its tool with result.
func serveTool(tools, result string) {
	serveRaw(func(method string, id, _ gjson.Result) {
		if !answerGreeting(method, id, tools) {
			printLine(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Raw, result)
		}
	})
}

const oneTool = `{"name":"a","description":"A.","icons":[{"src":"x"}],"_meta":{"x":1},"inputSchema":{"type":"object"}}`

// hang blocks forever, even after the end of stdin. The signal handler keeps the runtime from reporting a deadlock.
func hang() {
	ossignal.Notify(make(chan os.Signal, 1), os.Interrupt)
	select {}
}

// badServers misbehave.
var badServers = map[string]func(){
	"silent":  func() { serveRaw(func(string, gjson.Result, gjson.Result) {}) },
	"at once": func() { fmt.Fprintln(os.Stderr, "no api key: "+os.Getenv("SHELF_TOKEN")); os.Exit(4) },
	"prints": func() {
		for range 1 << 16 {
			printLine("Hello, I am a server that does not know the protocol")
		}
		hang()
	},
	"greeting": func() {
		printLine("Server ready at token %s\n\n[1] {x", os.Getenv("SHELF_TOKEN"))
		serveRaw(func(method string, id, _ gjson.Result) {
			if !answerGreeting(method, id, oneTool) {
				printLine("debug: calling")
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	},
	"mute in calls": func() {
		serveRaw(func(method string, id, _ gjson.Result) { answerGreeting(method, id, oneTool) })
	},
	"old": func() { // does not answer requests that it does not know
		serveRaw(func(method string, id, _ gjson.Result) {
			if method != "server/discover" && !answerGreeting(method, id, oneTool) {
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id.Raw)
			}
		})
	},
	"stderr": func() {
		go func() {
			line := strings.Repeat("e", 1<<16)
			for {
				fmt.Fprint(os.Stderr, line)
			}
		}()
		serveTool(oneTool, okResult)
	},
	"twice": func() {
		serveTool(oneTool+`,{"name":"a","description":"Second.","inputSchema":{}},null,{"name":5},{"name":"a b"},{"name":"a/c"},{"name":"a.c"}`,
			`{"content":[]}`)
	},
	"many": func() {
		serveRaw(func(method string, id, params gjson.Result) {
			if method != "tools/list" {
				answerGreeting(method, id, "")
				return
			}
			from := int(params.Get("cursor").Int())
			var tools []string
			for i := from; i < from+500; i++ {
				tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
			}
			next := ""
			if from+500 < 10_000 {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, from+500)
			}
			printLine(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}`, id.Raw, strings.Join(tools, ","), next)
		})
	},
	"endless": func() {
		n := 0
		serveRaw(func(method string, id, _ gjson.Result) {
			if method != "tools/list" {
				answerGreeting(method, id, "")
				return
			}
			n++
			printLine(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%d"}],"nextCursor":"%d"}}`, id.Raw, n, n%3+1)
		})
	},
	"huge": func() {
		serveRaw(func(method string, id, params gjson.Result) {
			if answerGreeting(method, id, oneTool) {
				return
			}
			switch params.Get("arguments.how").Str {
			case "first":
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id.Raw, strings.Repeat(`\"id\":1}`, 12<<20))
			case "last":
				printLine(`{"result":{"id":-1,"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("x", 100<<20), id.Raw)
			default:
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	},
	"version": func() {
		serveRaw(func(method string, id, _ gjson.Result) {
			if method == "initialize" {
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"bad","version":"0"}}}`,
					id.Raw)
				return
			}
			answerGreeting(method, id, "")
		})
	},
	"deaf": func() { // reads nothing after the greeting
		serveRaw(func(method string, id, _ gjson.Result) {
			if answerGreeting(method, id, oneTool); method == "tools/list" {
				hang()
			}
		})
	},
	"asks": func() { // returns the client's first answer as the result of its tool
		var call gjson.Result
		serveRaw(func(method string, id, params gjson.Result) {
			switch {
			case method == "" && call.Exists():
				printLine(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, call.Raw, answerText)
				call = gjson.Result{}
			case method != "" && !answerGreeting(method, id, oneTool):
				call = id
				for i := range max(params.Get("arguments.times").Int(), 1) {
					printLine(`{"jsonrpc":"2.0","id":"q%d","method":%q,"params":{}}`, i, params.Get("arguments.method").Str)
				}
				if params.Get("arguments.cancel").Bool() {
					printLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q0"}}`)
				}
			}
		})
	},
	"floods": func() { // asks endlessly once it is called, and reads nothing more
		serveRaw(func(method string, id, _ gjson.Result) {
			if !answerGreeting(method, id, oneTool) {
				for i := range 300_000 {
					printLine(`{"jsonrpc":"2.0","id":"f%d","method":"sampling/createMessage","params":{}}`, i)
				}
				hang()
			}
		})
	},
	"stubborn": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		_ = os.WriteFile(os.Getenv("PIDS"), fmt.Append(nil, os.Getpid()), 0o600)
		serveRaw(func(method string, id, _ gjson.Result) { answerGreeting(method, id, oneTool) })
		hang()
	},
	"parent": func() { // like npx: it starts a child of its own
		ossignal.Ignore(syscall.SIGTERM)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), serverEnv+"=sleeper")
		if err := child.Start(); err != nil {
			os.Exit(5)
		}
		_ = os.WriteFile(os.Getenv("PIDS"), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		serveTool(oneTool, `{"content":[]}`)
		if os.Getenv("LEAVES") == "" {
			hang()
		}
	},
	"heeds": func() { // ends only at the end of its stdin or only at SIGTERM; its child ends at the end of its stdin
		if os.Getenv("HEEDS") == "eof" {
			ossignal.Ignore(syscall.SIGTERM)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), serverEnv+"=reader")
		if _, err := child.StdinPipe(); err != nil || child.Start() != nil {
			os.Exit(5)
		}
		_ = os.WriteFile(os.Getenv("PIDS"), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		serveRaw(func(method string, id, _ gjson.Result) { answerGreeting(method, id, oneTool) })
		if os.Getenv("HEEDS") != "eof" {
			hang()
		}
	},
	"reader": func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	"sleeper": func() {
		ossignal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		hang()
	},
}
