package config

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Flows says where values with a label may go. Functions give labels to their results (gives) and roles to their arguments (takes).
type Flows struct {
	// The rules. Each one that catches a value does what it says; of several, deny is the strongest.
	Rules []FlowRule `yaml:"rules"`
	// Patterns of values that a model may write although it was shown labeled values, such as *@example.com, with * for letters, digits and
	// ._-+/ (but no .. and //). Only rules with through: model look at them.
	Trusted []string `yaml:"trusted" recorded:"no"`
	// How long what a client was shown is remembered after its last use, if the client has no session.
	Remember *time.Duration `yaml:"remember" recorded:"no" validate:"min=1s" default:"24h"`
}

// FlowRule is one flow rule.
type FlowRule struct {
	// The label of the values.
	From *string `yaml:"from" json:"from,omitempty" validate:"min=1" needed:"a label that functions give"`
	// Where they may not go: a role of arguments, write (all arguments of functions that do not only read), or destroy (those of functions
	// that destroy).
	To *string `yaml:"to" json:"to,omitempty" validate:"min=1" needed:"a role of arguments, write or destroy"`
	// What happens to a chain that would bring them there. deny: it is refused before anything runs; approve: a person must approve the call;
	// warn: it runs, with a warning.
	Do *string `yaml:"do" json:"do,omitempty" validate:"oneof=deny approve warn" needed:"yes"`
	// How they come there. chain: by the references of a chain; model: a model was shown values with the label, and then writes values of its
	// own.
	Through *string `yaml:"through" json:"through,omitempty" validate:"oneof=chain model" default:"chain"`
}

// EngineRules returns the rules for the engine.
func (f *Flows) EngineRules() []chain.FlowRule {
	var rules []chain.FlowRule
	for _, r := range f.Rules {
		rules = append(rules, chain.FlowRule{From: Or(r.From, ""), To: Or(r.To, ""), Do: Or(r.Do, ""), Through: Or(r.Through, "")})
	}
	return rules
}

// Approves returns the index of the first rule that asks a person; -1: none does.
func (f *Flows) Approves() int {
	return slices.IndexFunc(f.Rules, func(r FlowRule) bool { return Or(r.Do, "") == "approve" })
}

// NeedsPerson reports whether some calls need a person's approval: approveBy says so of all, or a flow rule asks.
func (c *Config) NeedsPerson() bool {
	return Or(c.ApproveBy, "") == "person" || c.Flows.Approves() >= 0
}

// checkFlows checks labels, roles and the rules between them.
func (d *decoder) checkFlows(c *Config) {
	d.checkLabels(c)
	for i := range c.Flows.Rules {
		d.requireKeys(fault.Index("/flows/rules", i), &c.Flows.Rules[i])
	}
	if len(c.Flows.Rules) > 0 && !d.hasFaultBelow("/flows/rules") {
		if f := chain.CheckFlowRules(c.Flows.EngineRules()); f != nil {
			f = f.Under("/flows/rules")
			d.add(d.positions[f.At], f.At, f)
		}
	}
	if len(c.Flows.Trusted) > 0 && !slices.ContainsFunc(c.Flows.Rules, func(r FlowRule) bool { return Or(r.Through, "") == "model" }) {
		d.warnAt("/flows/trusted", "no rule is through: model, so nothing looks at these patterns")
	}
	if j := Or(c.Journal.Store, ""); j == "off" && c.Flows.Approves() >= 0 {
		d.faultAt(fault.Index("/flows/rules", c.Flows.Approves())+"/do", fault.BadRequest,
			"approval needs a journal: write deny or warn, or leave out journal: {store: off}")
	}
}

// checkLabels checks the labels and roles of functions.
func (d *decoder) checkLabels(c *Config) {
	for i := range c.Functions {
		f, at := &c.Functions[i].Config, fault.Key("/functions", c.Functions[i].Name)
		report := func(key string, faults []*fault.Error) {
			for _, f := range faults {
				if place := f.At; place != "" {
					f.Message = "at " + place + ": " + f.Message
				}
				d.add(d.positions[at+key], at+key, f)
			}
		}
		_, faults := f.Labels()
		report("/gives", faults)
		_, faults = f.Roles()
		report("/takes", faults)
	}
}

// UnknownFlowNames returns a fault for each rule whose label no function gives, or whose role no argument has, by the configuration: the
// rule would guard nothing.
func (c *Config) UnknownFlowNames() (faults []*fault.Error) {
	labels, roles := []string{}, slices.Clone(steps.EffectRoles)
	add := func(gives []steps.Given, takes []steps.Taken) {
		for _, given := range gives {
			labels = append(labels, given.Label)
		}
		for _, taken := range takes {
			roles = append(roles, taken.Role)
		}
	}
	for i := range c.Functions {
		gives, _ := c.Functions[i].Config.Labels()
		takes, _ := c.Functions[i].Config.Roles()
		add(gives, takes)
	}
	for i := range c.MCPServers {
		for _, preset := range LabelPresets[Or(c.MCPServers[i].Config.Labels, "")] {
			add(preset.Labels())
		}
	}
	check := func(at, word, format string, known []string) {
		slices.Sort(known)
		if known = slices.Compact(known); !slices.Contains(known, word) {
			f := fault.New(fault.BadRequest, format, fault.Clip(word, 60)).Under(at)
			f.Available, f.Nearest = known, fault.Nearest(word, known, 1)
			faults = append(faults, f)
		}
	}
	for i, rule := range c.Flows.EngineRules() {
		at := fault.Index("/flows/rules", i)
		check(at+"/from", rule.From, "no function gives the label %q: gives of functions sets it, or labels of a server", labels)
		check(at+"/to", rule.To, "no argument has the role %q: takes of functions sets it, or labels of a server", roles)
	}
	return faults
}

// Labels returns the labels that a function gives; nil: it does not say.
func (f *Function) Labels() ([]steps.Given, []*fault.Error) {
	if isAbsent(f.Gives) {
		return nil, nil
	}
	return steps.ParseGives(f.Gives)
}

// Roles returns the roles of a function's arguments; nil: it does not say.
func (f *Function) Roles() ([]steps.Taken, []*fault.Error) {
	if isAbsent(f.Takes) {
		return nil, nil
	}
	return steps.ParseTakes(f.Takes)
}

func isAbsent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// LabelPreset has labels and roles of the tools of a well-known server whose names match a pattern.
type LabelPreset struct{ Pattern, Gives, Takes string }

// Labels returns the labels and the roles; nil: there are none.
func (p *LabelPreset) Labels() (gives []steps.Given, takes []steps.Taken) {
	if p.Gives != "" {
		gives, _ = steps.ParseGives([]byte(p.Gives)) // TestLabelPresets reads them all
	}
	if p.Takes != "" {
		takes, _ = steps.ParseTakes([]byte(p.Takes))
	}
	return gives, takes
}

// What presets say of everything that a server reads, and of the arguments of everything that it writes.
const (
	outside      = `["untrusted","private"]`
	ofRepository = `{"owner":"destination","repo":"destination","organization":"destination","*":"content"}`
	ofMessage    = `{"to":"recipient","cc":"recipient","bcc":"recipient","recipients":"recipient","recipient":"recipient","*":"content"}`
	ofFile       = `{"path":"destination","destination":"destination","source":"destination","*":"content"}`
	// A filter may forward mail: who writes its actions chooses a recipient.
	ofFilter = `{"action":"recipient","actions":"recipient","forward":"recipient","forwardTo":"recipient","forwardingEmail":"recipient",` +
		`"*":"content"}`
)

// LabelPresets are the values of labels in an entry of mcpServers. Servers of mail name their tools in many ways, so words in the names
// count.
var LabelPresets = map[string][]LabelPreset{
	"github": {
		{"get_*", outside, ofRepository}, {"list_*", outside, ofRepository}, {"search_*", outside, ""}, {"*_read", outside, ofRepository},
		{"resources.read", outside, ""}, {"*", "", ofRepository},
	},
	"mail": {
		{"*read*", outside, ""}, {"*get*", outside, ""}, {"*search*", outside, ""}, {"*list*", outside, ""}, {"*fetch*", outside, ""},
		{"*send*", "", ofMessage}, {"*reply*", "", ofMessage}, {"*forward*", "", ofMessage}, {"*draft*", "", ofMessage},
		{"*filter*", "", ofFilter}, {"*rule*", "", ofFilter}, {"*forwarding*", "", ofFilter},
	},
	"files": {
		{"read_*", `["private"]`, ""}, {"resources.read", `["private"]`, ""}, {"search_*", `["private"]`, ""},
		{"list_*", `["private"]`, ""}, {"directory_tree", `["private"]`, ""}, {"get_file_info", `["private"]`, ""},
		{"edit_file", `["private"]`, ofFile}, // it returns the lines around the change
		{"write_file", "", ofFile}, {"move_file", "", ofFile}, {"create_directory", "", ofFile},
	},
}
