package app

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// unknownLabels finds labels at paths that no result of the functions has, and roles of arguments that none of them has.
func (s *subject) unknownLabels() (faults []*fault.Error) {
	for i := range s.config.Functions {
		name, c := s.config.Functions[i].Name, &s.config.Functions[i].Config
		at := fault.Key("/functions", name)
		var matched []*steps.Entry
		for _, entry := range s.registry.All() {
			if spec := entry.Spec(); pattern.Matches(name, spec.Name) || pattern.Matches(name, s.settings.Original(spec.Name)) {
				matched = append(matched, entry)
			}
		}
		if len(matched) == 0 {
			continue // the pattern itself is told
		}
		gives, _ := c.Labels()
		for _, given := range gives {
			if f := missingEverywhere(matched, func(e *steps.Entry) *fault.Error {
				_, f := e.Produces(given.Path)
				return f
			}); f != nil {
				f.Message = "nothing has the label " + given.Label + " there: " + f.Message
				if len(f.Nearest) > 0 { // the message lists all members, too
					f.Message += ": did you mean " + f.Nearest[0] + "?"
				}
				faults = append(faults, f.Under(at+"/gives"))
			}
		}
		takes, _ := c.Roles()
		for _, taken := range takes {
			if len(taken.Path) == 0 {
				continue
			}
			if f := missingEverywhere(matched, func(e *steps.Entry) *fault.Error { return missingArgument(e, taken.Path[0].Key) }); f != nil {
				f.Message = "no argument has the role " + taken.Role + ": " + f.Message
				faults = append(faults, f.Under(at+"/takes"))
			}
		}
	}
	return faults
}

// missingEverywhere returns the first fault, a copy, if there is one for each function.
func missingEverywhere(matched []*steps.Entry, missing func(*steps.Entry) *fault.Error) (first *fault.Error) {
	for _, entry := range matched {
		f := missing(entry)
		if f == nil {
			return nil
		}
		if first == nil {
			copied := *f
			copied.At, copied.Code = "", fault.BadRequest
			first = &copied
		}
	}
	return first
}

// missingArgument returns a fault if a function declares arguments, and not this one.
func missingArgument(e *steps.Entry, name string) *fault.Error {
	if e.Argument(name) != "" || len(e.Properties()) == 0 {
		return nil
	}
	f := fault.New(fault.BadRequest, "%s does not declare %s", e.Spec().Name, fault.Quote(fault.Clip(name, 60)))
	f.Nearest = fault.Nearest(name, e.Properties(), 3)
	return f
}

// idleFlows finds rules that cannot catch anything: no function that is there gives their label, or takes values where they lead.
func (s *subject) idleFlows() (faults []*fault.Error) {
	for i, rule := range s.config.Flows.EngineRules() {
		given, taken := false, false
		for _, entry := range s.registry.All() {
			spec := entry.Spec()
			given = given || slices.ContainsFunc(spec.Gives, func(g steps.Given) bool { return g.Label == rule.From })
			switch rule.To {
			case "write":
				taken = taken || spec.Effect != steps.Read
			case "destroy":
				taken = taken || spec.Effect == steps.Destroy
			default:
				taken = taken || slices.ContainsFunc(spec.Takes, func(t steps.Taken) bool { return t.Role == rule.To })
			}
		}
		at := fault.Index("/flows/rules", i)
		if !given {
			faults = append(faults, fault.New(fault.BadRequest, "can never hold: no function that is here gives the label %s", rule.From).
				Under(at+"/from"))
		}
		if !taken {
			faults = append(faults, fault.New(fault.BadRequest, "can never hold: no function that is here has arguments for %s", rule.To).
				Under(at+"/to"))
		}
	}
	return faults
}

// flowFaults returns the faults of rules that would guard nothing. A replay has the functions of its recording, with their labels.
func (a *App) flowFaults() (faults []*fault.Error) {
	if a.cassette == nil {
		for _, f := range a.config.UnknownFlowNames() {
			faults = append(faults, a.config.FaultAt("", f))
		}
	}
	return faults
}
