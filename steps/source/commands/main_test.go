package commands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// roleVariable makes the test's own program play the program of a command: what the variable says.
const roleVariable = "COMMANDS_TEST_ROLE"

func TestMain(m *testing.M) {
	role, plays := os.LookupEnv(roleVariable)
	if !plays {
		os.Exit(m.Run())
	}
	play(role, os.Args[1:])
	os.Exit(0)
}

func play(role string, args []string) {
	switch role {
	case "args":
		_ = json.NewEncoder(os.Stdout).Encode(append([]string{}, args...))
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "folder":
		folder, err := os.Getwd()
		fmt.Print(folder, err)
	case "stdin":
		text, err := io.ReadAll(os.Stdin)
		fmt.Printf("%q %v", text, err)
	case "say": // stdout, stderr, exit status
		fmt.Fprint(os.Stdout, args[0])
		fmt.Fprint(os.Stderr, args[1])
		status, _ := strconv.Atoi(args[2])
		os.Exit(status)
	case "lines":
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			fmt.Println("line", i+1)
		}
	case "flood":
		n, _ := strconv.Atoi(args[0])
		piece := []byte(strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024))
		for range n >> 20 {
			_, _ = os.Stdout.Write(piece)
		}
		fmt.Println("error: the flood is over")
	case "stubborn": // a file tells that it ignores signals from now on
		signal.Ignore(os.Interrupt, terminate)
		fmt.Println("ready")
		tell(args[0], "ready")
		time.Sleep(time.Hour)
	case "fork": // leaves a child behind that holds its output, and tells its process
		child := exec.Command(os.Args[0], args[0]+".child")
		child.Env, child.Stdout = []string{roleVariable + "=stubborn"}, os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		tell(args[0], strconv.Itoa(child.Process.Pid))
		if len(args) > 1 {
			time.Sleep(time.Hour)
		}
	case "hoard":
		var kept [][]byte
		for {
			piece := make([]byte, 16<<20)
			for i := range piece {
				piece[i] = 1
			}
			kept = append(kept, piece)
			fmt.Println(len(kept))
		}
	default:
		panic("no role " + role)
	}
}

// tell writes a file at once.
func tell(path, text string) {
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		panic(err)
	}
}

// self returns a command whose program is the test's own, in a role. Its memory is not bounded.
func self(t testing.TB, name, role string, args ...string) commands.Command {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return commands.Command{Name: name, Run: append([]string{program}, args...), Effect: "read", Env: map[string]string{roleVariable: role},
		MaxMemoryBytes: 1 << 50} // a program that is built with the race detector needs terabytes of addresses
}

func open(t *testing.T, root string, list ...commands.Command) *commands.Source {
	t.Helper()
	s, err := commands.New(&commands.Options{Root: root, Commands: list})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// function returns a function as the engine calls it, with its arguments checked.
func function(t *testing.T, s steps.Source, name string) *steps.Entry {
	t.Helper()
	registry, err := steps.NewRegistry(s.Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := registry.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// result is what a test reads of a result.
type result struct {
	Exit         int
	Signal       string
	Lines        int64
	ErrorCount   int
	Errors       []struct{ Stream, Text string }
	Tail         []string
	OmittedBytes struct{ Stdout, Stderr int64 }
	InvalidUTF8  bool
	Token        string
	Format       string
	Stderr       string
	Stdout       json.RawMessage
}

// text returns stdout, which must be a text.
func (r *result) text(t *testing.T) string {
	t.Helper()
	var text string
	if err := json.Unmarshal(r.Stdout, &text); err != nil {
		t.Fatalf("stdout is no text: %s", r.Stdout)
	}
	return text
}

func decode(t *testing.T, encoded []byte) *result {
	t.Helper()
	var r result
	if err := json.Unmarshal(encoded, &r); err != nil {
		t.Fatalf("%v: %.300s", err, encoded)
	}
	return &r
}

func do(t *testing.T, s steps.Source, name, args string) *result {
	t.Helper()
	encoded, err := function(t, s, name).Call(t.Context(), []byte(args))
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return decode(t, encoded)
}

// mustFail makes a call that must fail with a code.
func mustFail(t *testing.T, s steps.Source, name, args string, code fault.Code) *fault.Error {
	t.Helper()
	_, err := function(t, s, name).Call(t.Context(), []byte(args))
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("%s %s: got %v, want %s", name, args, err, code)
	}
	return f
}

// schemas makes the Args of a command: all texts, unless a name is followed by = and a schema.
func schemas(names ...string) map[string]json.RawMessage {
	args := map[string]json.RawMessage{}
	for _, name := range names {
		name, schema, given := strings.Cut(name, "=")
		if !given {
			schema = `{"type":"string"}`
		}
		args[name] = json.RawMessage(schema)
	}
	return args
}

func with(c commands.Command, change func(*commands.Command)) commands.Command {
	c.Run = slices.Clone(c.Run)
	change(&c)
	return c
}
