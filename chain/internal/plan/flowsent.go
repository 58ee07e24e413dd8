package plan

import "slices"

// ThroughModel reports whether some rule is about values that a model writes. A nil policy has no rules.
func (p *FlowPolicy) ThroughModel() bool { return p != nil && p.model }

// Labels returns the labels that rules name, each once.
func (p *FlowPolicy) Labels() (names []string) {
	if p == nil {
		return nil
	}
	for i := range p.rules {
		if !slices.Contains(names, p.rules[i].From) {
			names = append(names, p.rules[i].From)
		}
	}
	return names
}
