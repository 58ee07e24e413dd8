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

// idleFlows finds rules that cannot catch anything: no function gives their label, or takes values where they lead. Functions of absent
// sources may.
func (s *subject) idleFlows() (faults []*fault.Error) {
	for i, rule := range s.config.Flows.EngineRules() {
		gives := func(list []steps.Given) bool {
			return slices.ContainsFunc(list, func(g steps.Given) bool { return g.Label == rule.From })
		}
		takes := func(list []steps.Taken) bool {
			return slices.ContainsFunc(list, func(t steps.Taken) bool { return t.Role == rule.To })
		}
		given := s.mayBeAbsent(func(c *steps.Setting) bool { return gives(c.Gives) })
		taken := s.mayBeAbsent(func(c *steps.Setting) bool { return takes(c.Takes) }) ||
			slices.Contains(steps.EffectRoles, rule.To) && len(s.absent) > 0
		for _, entry := range s.registry.All() {
			spec := entry.Spec()
			given = given || gives(spec.Gives)
			switch rule.To {
			case "write":
				taken = taken || spec.Effect != steps.Read
			case "destroy":
				taken = taken || spec.Effect == steps.Destroy
			default:
				taken = taken || takes(spec.Takes)
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

// mayBeAbsent reports whether such a setting could be that of a function of an absent source.
func (s *subject) mayBeAbsent(is func(*steps.Setting) bool) bool {
	return slices.ContainsFunc(settingList(s.config), func(l locatedSetting) bool {
		return is(&l.Setting) && slices.ContainsFunc(s.absent, func(source string) bool { return mayMatch(l.Pattern, source) })
	})
}

// unruledLabels finds labels and roles under functions that no rule names, such as misspelled ones beside others. Without rules, they may
// be for later.
func (s *subject) unruledLabels() (faults []*fault.Error) {
	labels, roles := []string{}, []string{}
	for _, rule := range s.config.Flows.EngineRules() {
		labels, roles = append(labels, rule.From), append(roles, rule.To)
	}
	add := func(at, word, format string, known []string) {
		if slices.Contains(known, word) || len(known) == 0 {
			return
		}
		f := fault.New(fault.BadRequest, format, word).Under(at)
		f.Nearest = fault.Nearest(word, known, 1)
		faults = append(faults, f)
	}
	for i := range s.config.Functions {
		c, at := &s.config.Functions[i].Config, fault.Key("/functions", s.config.Functions[i].Name)
		gives, _ := c.Labels()
		for _, given := range gives {
			add(at+"/gives", given.Label, "no flow rule is about the label %s", labels)
		}
		takes, _ := c.Roles()
		for _, taken := range takes {
			add(at+"/takes", taken.Role, "no flow rule leads to the role %s", roles)
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
