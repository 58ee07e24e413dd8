package cli

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// answerFlags are the flags of every command that runs something and writes its answer.
type answerFlags struct {
	lite   bool
	budget int
	format string
}

func (f *answerFlags) add(cmd *cobra.Command, s *streams) {
	cmd.Flags().BoolVar(&s.asJSON, "json", false, "answer JSON on one line, and never ask, even at a terminal")
	cmd.Flags().BoolVar(&f.lite, "lite", false, "the shortest answer: only the result")
	cmd.Flags().StringVar(&f.format, "format", "", "how the result is written: "+strings.Join(chain.Formats(), ", "))
	cmd.Flags().IntVar(&f.budget, "budget", 0, "maximum `tokens` of the answer, at least 150 (default: no limit)")
	cmd.Flags().BoolVar(&s.raw, "raw", false, "only the result; a string without quotes")
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
}

// override returns what the flags set over the request.
func (f *answerFlags) override(cmd *cobra.Command) (chain.Override, error) {
	o := chain.Override{MaxTotalTokens: f.budget, Format: f.format}
	if cmd.Flags().Changed("format") && !slices.Contains(chain.Formats(), f.format) {
		return o, usageErrorf("--format is %q: use %s", f.format, strings.Join(chain.Formats(), ", "))
	}
	if cmd.Flags().Changed("budget") && f.budget < budget.MinTokens {
		return o, usageErrorf("--budget is %d: the minimum is %d", f.budget, budget.MinTokens)
	}
	if cmd.Flags().Changed("lite") {
		o.Lite = &f.lite
	}
	return o, nil
}

// chainFlags are the flags of run and resume.
type chainFlags struct {
	answerFlags
	input  string
	set    []string
	dryRun bool
	trace  string
	out    string
}

func (f *chainFlags) add(cmd *cobra.Command, c *cli) {
	f.answerFlags.add(cmd, c.streams)
	flags := cmd.Flags()
	flags.StringVar(&f.input, "input", "", "the chain's $input: a `JSON` object, or @FILE")
	flags.StringArrayVar(&f.set, "set", nil, "set one value of the input, `key=value`: JSON if it parses, else text")
	flags.BoolVar(&f.dryRun, "dry-run", false, "answer the plan and run nothing")
	flags.StringVar(&f.trace, "trace", "", "what the answer says about each step: none, summary or full")
	flags.BoolVar(&c.explain, "explain", false, "show each step when it ends, and how its result begins, on stderr")
	flags.Var((*outPath)(&f.out), "out", "write the answer to a `file`, which appears when it is complete; or images and files of the result to a "+
		"folder (a path with / at its end)")
}

func (f *chainFlags) override(cmd *cobra.Command) (chain.Override, error) {
	o, err := f.answerFlags.override(cmd)
	if err != nil {
		return o, err
	}
	o.DryRun, o.Trace = f.dryRun, f.trace
	if traces := []string{"none", "summary", "full"}; cmd.Flags().Changed("trace") && !slices.Contains(traces, f.trace) {
		return o, usageErrorf("--trace is %q: use %s", f.trace, strings.Join(traces, ", "))
	}
	for _, text := range f.set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return o, usageErrorf("--set %s: write it as key=value", fault.Clip(text, 100))
		}
		o.Set = append(o.Set, chain.Setting{Key: key, Value: value})
	}
	if cmd.Flags().Changed("input") {
		o.Input, err = jsonObject("--input", f.input)
	}
	return o, err
}

// jsonObject reads a flag's value: a JSON object, or @ and the path of a file that holds one.
func jsonObject(flag, value string) ([]byte, error) {
	text := []byte(value)
	if path, ok := strings.CutPrefix(value, "@"); ok {
		file, err := textfile.Open(path)
		if err != nil {
			return nil, opErrorf("%s: %s cannot be read: %v", flag, path, textfile.Cause(err))
		}
		defer file.Close()
		if text, err = textfile.ReadAll(file, chain.DefaultMaxRequestBytes); err != nil {
			return nil, opErrorf("%s: %s cannot be read: %v", flag, path, textfile.Cause(err))
		}
		text = textfile.WithoutMark(text)
	}
	if len(text) > chain.DefaultMaxRequestBytes {
		return nil, usageErrorf("%s: more than %d bytes", flag, chain.DefaultMaxRequestBytes)
	}
	compact, err := jsontext.AppendFormat(nil, text, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, usageErrorf("%s is not JSON: %s. In a shell, put it in single quotes: %s '{\"name\": \"value\"}'",
			flag, strings.TrimPrefix(err.Error(), "jsontext: "), flag)
	}
	if compact[0] != '{' {
		return nil, usageErrorf("%s must be a JSON object, not %s", flag, fault.Clip(string(compact), 60))
	}
	return compact, nil
}
