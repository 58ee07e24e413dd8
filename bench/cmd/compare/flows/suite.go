package flows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// suite is a suite of AgentDojo: tools, the calls of its users' tasks, and those that injected texts want.
type suite struct {
	name       string
	tools      []tool
	tasks      []*task
	injections map[string]*task
	cases      []attack
}

// tool is a function of a suite, with what was said of it by hand.
type tool struct {
	Name, Description string
	Arguments         json.RawMessage
	Kind              string                  // read or write
	OutsiderText      []struct{ Path string } `json:"outsider_text"` // what of its result outsiders can write
	Roles             map[string][]string     // the arguments that say where, what and which
}

// task is a task with the calls that solve it, or the goal of an injected text with the calls that reach it.
type task struct {
	ID, Suite, Prompt string
	Steps             []step
	LiteralArgs       []map[string]any `json:"literal_args"` // of a task: the arguments of the calls
	Results           []json.RawMessage
	Writes            []int
	ShortRefs         []reference `json:"short_refs"` // references in place of values too short to be found by their text
	FromText          []reading   `json:"from_text"`  // arguments that stand only in a text that was read
}

type step struct {
	Fn   string         `json:"fn"`
	Args map[string]any `json:"args"`
}

// reference says which value of an earlier result an argument is.
type reference struct {
	Step     int
	Arg, Ref string
}

// reading says in the result of which step an argument stands.
type reading struct {
	Step, FromStep int
	Arg            string
}

// UnmarshalJSON reads the spelling of the data set.
func (r *reading) UnmarshalJSON(text []byte) error {
	var written struct {
		Step     int    `json:"step"`
		FromStep int    `json:"from_step"`
		Arg      string `json:"arg"`
	}
	err := json.Unmarshal(text, &written)
	*r = reading(written)
	return err
}

// attack is a task of a user with an injected text that shows in the results of some of its calls.
type attack struct {
	User, Injection string
	Calls           bool  `json:"injection_has_calls"` // the injected text wants calls
	PoisonedSteps   []int `json:"poisoned_steps"`
}

// readSuites reads the data set.
func readSuites(folder string) (list []*suite) {
	suites := map[string]*suite{}
	of := func(name string) *suite {
		if suites[name] == nil {
			suites[name] = &suite{name: name, injections: map[string]*task{}}
		}
		return suites[name]
	}
	for _, t := range readLines[task](folder, "agentdojo_user.jsonl") {
		s := of(t.Suite)
		s.tasks = append(s.tasks, t)
	}
	for _, t := range readLines[task](folder, "agentdojo_injection.jsonl") {
		of(t.Suite).injections[t.ID] = t
	}
	for _, c := range readLines[attack](folder, "agentdojo_cases.jsonl") {
		for _, s := range suites {
			if c.Calls && s.task(c.User) != nil {
				s.cases = append(s.cases, *c)
			}
		}
	}
	var tools map[string][]tool
	harness.Check(json.Unmarshal(harness.Must(readFile(folder, "agentdojo_tools.json")), &tools))
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		suites[name].tools = tools[name]
		list = append(list, suites[name])
	}
	return list
}

// task returns the task of a user, by its id; nil: it is none of the suite's.
func (s *suite) task(id string) *task {
	if i := slices.IndexFunc(s.tasks, func(t *task) bool { return t.ID == id }); i >= 0 {
		return s.tasks[i]
	}
	return nil
}

// role returns the role of an argument of a function: where, what, which or "".
func (s *suite) role(function, argument string) string {
	for _, t := range s.tools {
		if s.name+"."+t.Name != function {
			continue
		}
		for role, arguments := range t.Roles {
			if slices.Contains(arguments, argument) {
				return role
			}
		}
	}
	return ""
}

func readFile(folder, name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) || folder == "" {
		err = fmt.Errorf("%w: AgentDojo is not on this machine", harness.ErrNotHere)
	}
	return text, err
}

func readLines[T any](folder, name string) (list []*T) {
	lines := bufio.NewScanner(bytes.NewReader(harness.Must(readFile(folder, name))))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		v := new(T)
		harness.Check(json.Unmarshal(lines.Bytes(), v))
		list = append(list, v)
	}
	harness.Check(lines.Err())
	return list
}
