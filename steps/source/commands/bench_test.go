package commands_test

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// BenchmarkCommand runs a small program as a function, and compares with os/exec alone. Both arms must have the same output; their rounds
// alternate.
func BenchmarkCommand(b *testing.B) {
	program, err := exec.LookPath("echo")
	if err != nil {
		b.Fatal(err)
	}
	s, err := commands.New(&commands.Options{Commands: []commands.Command{
		{Name: "x", Run: []string{program, "{x}"}, Args: schemas("x"), Effect: "read"},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	call := s.Functions()[0].Call
	var function, bare time.Duration
	for b.Loop() {
		start := time.Now()
		result, err := call(context.Background(), []byte(`{"x":"hello"}`))
		function += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		cmd := exec.Command(program, "hello")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Run()
		bare += time.Since(start)
		if got := gjson.GetBytes(result, "stdout").Str; err != nil || got != stdout.String() || got != "hello\n" {
			b.Fatalf("got %q, os/exec alone %q, %v", got, stdout.String(), err)
		}
	}
	n := float64(b.N)
	b.ReportMetric(function.Seconds()*1000/n, "onecall-ms/op")
	b.ReportMetric(bare.Seconds()*1000/n, "exec-ms/op")
	b.ReportMetric((function-bare).Seconds()*1000/n, "over-ms/op")
}

// BenchmarkFlood reads a GiB of output, of which 8 MiB are kept: B/op is all that was allocated meanwhile.
func BenchmarkFlood(b *testing.B) {
	const size = 1 << 30
	c := self(b, "x", "flood", strconv.Itoa(size))
	s, err := commands.New(&commands.Options{Commands: []commands.Command{c}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	b.SetBytes(size)
	for b.Loop() {
		result, err := s.Functions()[0].Call(context.Background(), []byte(`{}`))
		if err != nil {
			b.Fatal(err)
		}
		if omitted := gjson.GetBytes(result, "omittedBytes.stdout").Int(); omitted < size-8<<20 {
			b.Fatalf("%d bytes are left out", omitted)
		}
	}
}
