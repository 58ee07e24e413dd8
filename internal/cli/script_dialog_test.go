package cli_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

// environment is the key of the variables that a script begins with.
type environment struct{}

// dialog FILE ARGS... runs onecall with ARGS and writes the messages of a file to it, one a line, each after the earlier requests were
// answered. With stdin, requests run side by side. The messages of onecall are the output.
func dialog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: dialog file args...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), polltest.TooLong)
	defer cancel()
	cmd := exec.CommandContext(ctx, "onecall", args[1:]...) // testscript.Main puts it into PATH
	cmd.Dir, cmd.Env, cmd.Stderr = ts.MkAbs("."), ts.Value(environment{}).([]string), ts.Stderr()
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	answers := bufio.NewReader(io.TeeReader(out, ts.Stdout()))
	for message := range strings.Lines(ts.ReadFile(args[0])) {
		_, err := io.WriteString(in, message)
		ts.Check(err)
		for id := gjson.Get(message, "id").Raw; id != ""; {
			answer, err := answers.ReadString('\n')
			ts.Check(err)
			if gjson.Get(answer, "id").Raw == id && !gjson.Get(answer, "method").Exists() {
				break
			}
		}
	}
	ts.Check(in.Close())
	_, err = io.Copy(io.Discard, answers)
	ts.Check(err)
	ts.Check(cmd.Wait())
}
