package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// place is where onecall is run: its configuration, and its journal on a disk of its own.
type place struct {
	plain
	bench   *harness.Bench
	program func(context.Context) string // returns the path of the program
	folder  string
	room    *disk
	config  map[string]string // the paths of the configurations, by what waits for an approval: never, write
}

// newPlace writes the configurations. more is added to them.
func newPlace(b *harness.Bench, name string, program func(context.Context) string, u *upstream, more harness.Config) *place {
	p := &place{bench: b, program: program, folder: filepath.Join(b.Temp, name), config: map[string]string{}}
	p.room = newDisk(p.folder)
	for _, approve := range []string{"never", "write"} {
		config := harness.Config{
			"mcpServers": map[string]any{"shop": map[string]any{"url": u.url()}},
			"functions":  map[string]any{"shop.*": map[string]any{"timeoutMs": deadline.Milliseconds()}},
			"journal":    map[string]any{"store": "sqlite"},
			"approve":    approve,
			"access":     map[string]any{"http": "read_write"},
		}
		maps.Copy(config, more)
		p.config[approve] = filepath.Join(b.Temp, name+"-"+approve+".json")
		harness.WriteFile(p.config[approve], harness.Must(json.Marshal(config)))
	}
	return p
}

// command returns the command of onecall with the configuration for a trial.
func (p *place) command(ctx context.Context, approve, verb string, args ...string) *exec.Cmd {
	cmd := p.bench.Cmd(p.program(ctx), append([]string{verb, "--config", p.config[approve]}, args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+p.folder, "XDG_STATE_HOME="+p.folder, "XDG_CACHE_HOME="+p.folder)
	return cmd
}

func (p *place) database() string  { return filepath.Join(p.folder, "onecall", "journal.db") }
func (p *place) disk() *disk       { return p.room }
func (p *place) approves() bool    { return true }
func (p *place) hasDeadline() bool { return true }

func (p *place) close() {
	if p.room != nil {
		p.room.close()
	}
}

// approval says what waits for an approval in a trial.
func approval(t *trial) string {
	if t.fault.kind.waits {
		return "write"
	}
	return "never"
}

// read turns an answer of onecall into what it says.
func read(t *trial, text string) answer {
	a := answer{text: text, told: map[string]outcome{}}
	json := gjson.Parse(text)
	if a.done = json.Get("ok").Bool(); a.done {
		return a
	}
	for _, w := range json.Get("writes").Array() {
		for _, ref := range t.refsAt(int(w.Get("step").Int()), w.Get("elements").Str) {
			switch w.Get("outcome").Str {
			case "applied":
				a.told[ref] = applied
			case "failed", "not_sent":
				a.told[ref] = undone
			default:
				a.told[ref] = unknown
			}
		}
	}
	return a
}

// refsAt returns the refs of a step's elements, such as "0-2,5"; "": all.
func (t *trial) refsAt(step int, elements string) (refs []string) {
	if elements == "" {
		for item := range max(1, t.task.steps[step].items) {
			refs = append(refs, t.ref(step, item))
		}
		return refs
	}
	for part := range strings.SplitSeq(elements, ",") {
		from, to, several := strings.Cut(part, "-")
		if !several {
			to = from
		}
		for item := harness.Must(strconv.Atoi(from)); item <= harness.Must(strconv.Atoi(to)); item++ {
			refs = append(refs, t.ref(step, item))
		}
	}
	return refs
}

// assumed is what is to be assumed of a write: the id that it answered; "": it was not sent.
type assumed struct{ id string }

// MarshalJSON implements json.Marshaler, as the field assume has it.
func (a assumed) MarshalJSON() ([]byte, error) {
	if a.id == "" {
		return []byte(`"not_sent"`), nil
	}
	return json.Marshal(map[string]any{"result": map[string]string{"id": a.id}})
}

// assume looks up the writes whose outcome onecall asks for, by their places.
func assume(t *trial, conflict gjson.Result) map[string]assumed {
	said := map[string]assumed{}
	for _, at := range conflict.Get("error.available").Array() {
		step, item := 0, 0
		if n, _ := fmt.Sscanf(at.Str, "%d[%d]", &step, &item); n == 0 {
			harness.Fail("onecall asks for the outcome of %q", at.Str)
		}
		said[at.Str] = assumed{t.lookUp(t.ref(step, item))}
	}
	return said
}

// keyed returns the task as a chain whose key is the name of the trial.
func (t *trial) keyed() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"key":%q,"steps":[%s]}`, t.name, t.chain()))
}
