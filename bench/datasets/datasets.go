// Package datasets reads chains from public data sets, with the arguments and the result of each call. The data sets are not part of the
// repository.
package datasets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// Names returns the names of the data sets' files, without .jsonl.
func Names() []string {
	return []string{"nestful_math", "taubench", "bfcl_base", "bfcl_long_context", "workbench", "agentdojo_user"}
}

// Files returns the names of the data sets' files.
func Files() (files []string) {
	for _, name := range Names() {
		files = append(files, name+".jsonl")
	}
	return files
}

// Chain is a chain of a data set.
type Chain struct {
	ID           string            `json:"id"`
	Steps        json.RawMessage   `json:"steps"`
	LiteralArgs  []json.RawMessage `json:"literal_args"` // the arguments of the calls; NESTFUL has none
	Results      []json.RawMessage `json:"results"`
	Intermediate []json.RawMessage `json:"intermediate"` // NESTFUL: the values; the results are {"result":value}
	Turn         []int             `json:"turn"`         // BFCL: the user's turn that each step belongs to
	FromText     []Literal         `json:"from_text"`    // AgentDojo: arguments that stand only within a text of an earlier result
	ShortRefs    []Literal         `json:"short_refs"`   // AgentDojo: arguments too short to tell what they refer to
	Return       []int             `json:"-"`            // the steps whose results it returns; empty: the last step
}

// Literal is an argument that a model wrote after it had read a result.
type Literal struct {
	Step int    `json:"step"` // the step that has the argument
	Path string `json:"path"` // where the result has it, as a reference
	Ref  string `json:"ref"`  // the same, of a short one
}

// source returns the step whose result was read.
func (l Literal) source() (int, bool) {
	step, _, ok := parseReference(l.Path + l.Ref)
	return step, ok
}

// Step is a step with references in its arguments.
type Step struct {
	Fn   string
	Args map[string]any // the arguments, with numbers as written
}

// Read reads a data set. If the file does not exist, the error is an fs.ErrNotExist.
func Read(path string) ([]*Chain, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	var chains []*Chain
	for lines.Scan() {
		c := &Chain{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		chains = append(chains, c)
	}
	return chains, lines.Err()
}

// Written returns the chain's steps.
func (c *Chain) Written() (list []Step, err error) {
	d := json.NewDecoder(bytes.NewReader(c.Steps))
	d.UseNumber()
	return list, d.Decode(&list)
}

// Calls returns the calls that the chain must make, with their results.
func (c *Chain) Calls() ([]tally.Call, error) {
	written, err := c.Written()
	if err != nil {
		return nil, err
	}
	results := max(len(c.Results), len(c.Intermediate))
	if n := len(written); n == 0 || n != results || c.LiteralArgs != nil && n != len(c.LiteralArgs) {
		return nil, fmt.Errorf("%s: %d steps with %d literal_args and %d results", c.ID, n, len(c.LiteralArgs), results)
	}
	calls := make([]tally.Call, len(written))
	for i, s := range written {
		args, err := c.args(i, s.Args)
		if err != nil {
			return nil, err
		}
		calls[i] = tally.Call{Function: s.Fn, Args: args, Result: c.result(i)}
	}
	return calls, nil
}

// args returns the arguments that call i must have. NESTFUL does not record them; its references are all of the form `$N.result`.
func (c *Chain) args(i int, written map[string]any) (json.RawMessage, error) {
	if c.LiteralArgs != nil {
		return c.LiteralArgs[i], nil
	}
	for key, value := range written {
		text, _ := value.(string)
		if n, ok := strings.CutSuffix(strings.TrimPrefix(text, "$"), ".result"); ok && n != text {
			step, err := strconv.Atoi(n)
			if err != nil || step < 0 || step >= i {
				return nil, fmt.Errorf("%s: %s in step %d does not refer to an earlier step", c.ID, text, i)
			}
			written[key] = c.Intermediate[step]
		}
	}
	return json.Marshal(written)
}

func (c *Chain) result(i int) json.RawMessage {
	if c.Results != nil {
		return c.Results[i]
	}
	return fmt.Appendf(nil, `{"result":%s}`, c.Intermediate[i])
}

// Recording returns a recording of calls, for Replay.
func Recording(calls []tally.Call) []byte {
	var b bytes.Buffer
	for i := range calls {
		fmt.Fprintf(&b, "{\"fn\":%q,\"args\":%s,\"result\":%s}\n", calls[i].Function, calls[i].Args, calls[i].Result)
	}
	return b.Bytes()
}

// Player answers calls from a recording. Each run needs its own context, from Cassette.Cursor.
type Player struct {
	Engine    *chain.Engine
	Functions *steps.Registry // the functions that the engine calls
	Cassette  *replay.Cassette
}

// Replay returns a player of a recording. Its calls go through wrap, unless that is nil.
func Replay(recording []byte, wrap func(*steps.Spec, steps.Call) steps.Call) (*Player, error) {
	p := &Player{}
	var err error
	if p.Cassette, err = replay.Read(bytes.NewReader(recording), "recording"); err != nil {
		return nil, err
	}
	none, err := steps.NewRegistry(nil, nil)
	if err != nil {
		return nil, err
	}
	if p.Functions, err = p.Cassette.Registry(none); err != nil {
		return nil, err
	}
	if wrap != nil {
		p.Functions = p.Functions.Wrap(wrap)
	}
	p.Engine, err = chain.New(&chain.Options{Functions: p.Functions})
	return p, err
}
