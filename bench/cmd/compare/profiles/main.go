// Profiles profiles onecall's process while a client runs an empty chain, ten dependent calls to an MCP server, and ten calls of a
// function that does nothing, over HTTP with both versions of the protocol. It writes pprof's report of each profile, and a summary, to
// bench/results/profiles.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profiles:", err)
		os.Exit(1)
	}
}

// workload is a chain to profile.
type workload struct {
	name  string
	title string
	args  string // the chain, as the arguments of the tool
	want  string
}

// workloads returns an empty chain, and chains of ten steps.
func workloads() []workload {
	dependent := `{"lite":true,"steps":[{"fn":"up.next","args":{"n":0}}`
	for i := range 9 {
		dependent += fmt.Sprintf(`,{"fn":"up.next","args":{"n":"$%d.n"}}`, i)
	}
	noops := strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",")
	return []workload{
		{"empty", "an empty chain", `{"lite":true,"steps":[{"expr":"1"}]}`, "1"},
		{"dependent10", "10 dependent calls", dependent + "]}", `{"n":10}`},
		{"noop10", "10 no-ops", `{"lite":true,"steps":[` + noops + `]}`, `{"id":"a-1","value":7}`},
	}
}

var protocols = []struct{ name, version string }{{"sessions", load.WithSessions}, {"stateless", load.WithoutSessions}}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("profiles", flag.ContinueOnError)
	root := flags.String("root", "../../..", "the `folder` of the repository")
	duration := flags.Duration("time", 10*time.Second, "how long each chain runs under load")
	if err := flags.Parse(args); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "onecall-profiles-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	to := filepath.Join(*root, "bench/results/profiles")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	w, err := work.Build(ctx, *root, temp)
	if err != nil {
		return err
	}
	var all []summary
	for _, l := range workloads() {
		for _, protocol := range protocols {
			name := l.name + "-" + protocol.name
			fmt.Fprintln(os.Stderr, name)
			for _, kind := range kinds { // each in a run of its own: one profile would affect the other
				file := filepath.Join(temp, name+"-"+kind.name+".prof")
				chains, err := runProfiled(ctx, w, l, protocol.version, *duration, "-"+kind.name+"profile", file)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				s, err := write(ctx, to, name, kind, file)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				s.title, s.chains = fmt.Sprintf("%s, %s (%s), %s", l.title, protocol.name, protocol.version, kind.title), chains
				all = append(all, s)
			}
		}
	}
	return os.WriteFile(filepath.Join(to, "README.md"), readme(all), 0o644)
}

// runProfiled profiles onecall while one client runs chains, and returns the number of chains.
func runProfiled(ctx context.Context, w *work.Worker, l workload, version string, duration time.Duration, profileFlags ...string) (
	chains int, err error,
) {
	limit := duration + 2*time.Minute
	up, err := w.Serve(ctx, limit, "upstream")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	server, err := w.Serve(ctx, limit, append([]string{"serve", "-upstream", up.URL(version), "-version", version}, profileFlags...)...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	target := load.Target{URL: server.URL(version), Version: version, Tool: "chain", Args: l.args, Want: l.want}
	clients, err := load.Open(ctx, target, 1)
	if err != nil {
		return 0, err
	}
	defer clients.Close()
	for began := time.Now(); time.Since(began) < duration; {
		took, _, err := clients.Run(ctx, 1, 100)
		if err != nil {
			return chains, err
		}
		chains += len(took)
	}
	return chains, nil
}

// kind is a kind of profile. name is in the worker's flag and in file names, title is for people, and sample is pprof's name of its
// samples.
type kind struct{ name, title, sample string }

var kinds = []kind{{"cpu", "processor", "cpu"}, {"alloc", "bytes allocated", "alloc_space"}}

// volatileLines matches the lines of a pprof report that name the program's file and the time.
var volatileLines = regexp.MustCompile(`(?m)^(File|Build ID|Time): .*\n`)

// write writes pprof's report of a profile, and returns its summary.
func write(ctx context.Context, to, name string, k kind, file string) (summary, error) {
	cmd := exec.Command("go", "tool", "pprof", "-top", "-nodecount", "40", "-sample_index", k.sample, file)
	text, err := proc.Run(ctx, cmd, &proc.Options{Keep: 1 << 20})
	if err != nil {
		return summary{}, err
	}
	text = volatileLines.ReplaceAllString(text, "")
	path := name + "-" + k.name + ".txt"
	if err := os.WriteFile(filepath.Join(to, path), []byte(text), 0o644); err != nil {
		return summary{}, err
	}
	return summarize(file, path, k.sample)
}
