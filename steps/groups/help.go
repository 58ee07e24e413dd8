package groups

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// HelpOptions configure help.
type HelpOptions struct {
	// Limit bounds the tokens of the answer, as counted by Count, which may stop counting above Limit. The answer exceeds it only if
	// the schema of one function was requested, which is never cut, or if even the shortest answer is longer.
	Limit int
	Count func([]byte) int

	Lite   bool                       // names only
	Taught func(function string) bool // reports whether the session has received the signature; nil: it has not
}

// level is how much help says about a function.
type level int

const (
	levelSchemas     level = iota // signature, full description, effect and schemas
	levelDescription              // signature, effect and full description
	levelSummary                  // signature, effect and the first sentence of the description
	levelSignature                // signature and effect
	levelCall                     // signature without the result, and the effect
	levelName
	levelCount // only the number of functions
	levelOmitted
)

// Help answers a request for help (nil: on everything) with a JSON object: resource → action → one line with the signature without
// the function's name, the effect unless it is read, and the description. To fit the limit it drops in this order, the largest
// first: descriptions, results, the signatures of a resource (its actions become an array), the actions (the resource becomes a
// number), whole resources. The answer then says how to get more. A signature that the session has already received is null, unless
// it is requested again or with its schema. shown are the names of the functions whose full signatures are in the answer.
func (d *Dispatcher) Help(h *Help, o *HelpOptions) (answer []byte, shown []string) {
	if h == nil {
		h = &Help{}
	}
	p := newPage(d, h, o)
	if len(p.functions) == 1 && h.Schema {
		p.set(0)
	} else {
		p.fit(func() bool {
			text := p.render()
			return len(text) <= o.Limit || o.Count(text) <= o.Limit // n bytes are at most n tokens
		})
	}
	return p.render(), p.signatures()
}

// unit is the part of an answer that is shortened as a whole: a resource, or one function if there is only one resource.
type unit struct {
	name      string
	functions []*function
	texts     [][]byte // the texts by index in the page's levels; nil: not written yet
	at        int      // index of its level in the page's levels
	bucket    int      // index in the page's buckets
}

// page is an answer that is being built.
type page struct {
	functions []*function // sorted by label
	units     []*unit
	buckets   []bucket
	levels    []level
	single    bool // there is one resource, and each function is a unit
	taught    func(*function) bool
}

// bucket is a set of units that are counted together: resources that share their first part. Parts that all resources share do not
// count.
type bucket struct {
	name      string
	units     []int
	functions int
}

func newPage(d *Dispatcher, h *Help, o *HelpOptions) *page {
	p := &page{functions: slices.Clone(h.scope)}
	if p.functions == nil {
		p.functions = slices.Clone(d.functions)
	}
	members := func(f *function) string { return strings.ReplaceAll(f.label, ".", "\x00") } // so that a.b sorts before a-b
	slices.SortStableFunc(p.functions, func(a, b *function) int { return cmp.Compare(members(a), members(b)) })
	p.single = oneLabel(p.functions)
	p.taught = func(f *function) bool {
		return o.Taught != nil && !h.Again && !h.Schema && o.Taught(f.entry.Spec().Name)
	}
	first := levelSummary
	switch {
	case h.Schema:
		first = levelSchemas
	case o.Lite:
		first = levelName
	case len(p.functions) == 1:
		first = levelDescription
	}
	for l := first; l <= levelOmitted; l++ {
		if l != levelCount || !p.single {
			p.levels = append(p.levels, l)
		}
	}
	p.makeUnits()
	return p
}

// makeUnits creates the units.
func (p *page) makeUnits() {
	tops := topsOf(p.functions)
	for i, f := range p.functions {
		switch {
		case p.single:
			p.add(&unit{name: f.action, functions: p.functions[i : i+1]}, f.action)
		case i > 0 && p.functions[i-1].label == f.label:
			last := p.units[len(p.units)-1]
			last.functions = p.functions[i-len(last.functions) : i+1]
		default:
			p.add(&unit{name: f.label, functions: p.functions[i : i+1]}, tops[f.label])
		}
	}
	for _, u := range p.units {
		p.buckets[u.bucket].functions += len(u.functions)
	}
}

func (p *page) add(u *unit, top string) {
	if last := len(p.buckets) - 1; last < 0 || p.buckets[last].name != top {
		p.buckets = append(p.buckets, bucket{name: top})
	}
	u.bucket, u.texts = len(p.buckets)-1, make([][]byte, len(p.levels))
	b := &p.buckets[u.bucket]
	b.units = append(b.units, len(p.units))
	p.units = append(p.units, u)
}

// topsOf returns, for each label of sorted functions, its prefix up to the first part that not all labels share.
func topsOf(functions []*function) map[string]string {
	var labels []string
	for _, f := range functions {
		labels = append(labels, f.label)
	}
	labels = slices.Compact(labels)
	common := strings.Split(labels[0], ".")
	for _, label := range labels {
		segments := strings.Split(label, ".")
		n := 0
		for n < min(len(common), len(segments)) && segments[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	tops := map[string]string{}
	for _, label := range labels {
		segments := strings.Split(label, ".")
		tops[label] = strings.Join(segments[:min(len(common)+1, len(segments))], ".")
	}
	return tops
}

// set puts all units at one level. It writes their texts at the first use, because signatures are expensive.
func (p *page) set(number int) {
	for i, u := range p.units {
		if u.at = number; u.texts[number] == nil {
			u.texts[number] = p.text(i, p.levels[number])
		}
	}
}

// fit puts the units at the most detailed level at which everything fits, and then as many as possible at the next more detailed
// one.
func (p *page) fit(withinLimit func() bool) {
	coarse := len(p.levels) - 1
	for ; coarse > 0; coarse-- {
		if p.set(coarse - 1); !withinLimit() {
			break
		}
	}
	if coarse == 0 {
		return
	}
	groups := p.order(coarse)
	// reduce puts the first n groups at coarse and all others at the more detailed level, and reports whether that fits.
	reduce := func(n int) bool {
		p.set(coarse - 1)
		for _, units := range groups[:n] {
			for _, i := range units {
				p.units[i].at = coarse
			}
		}
		return withinLimit()
	}
	p.set(coarse) // writes the texts of that level, which reduce needs
	// Each step makes the answer shorter, apart from single tokens at boundaries, so what the search finds is checked again.
	n := sort.Search(len(groups), reduce)
	for !reduce(n) && n < len(groups) {
		n++
	}
}

// order returns the order in which units drop to a level: the largest first, or, if that level omits units, those with the fewest
// functions. Units of one bucket drop together.
func (p *page) order(coarse int) [][]int {
	var groups [][]int
	if p.levels[coarse] >= levelCount {
		for _, b := range p.buckets {
			groups = append(groups, b.units)
		}
	} else {
		for i := range p.units {
			groups = append(groups, []int{i})
		}
	}
	size := func(units []int) (n int) {
		for _, i := range units {
			if p.levels[coarse] == levelOmitted {
				n -= len(p.units[i].functions)
			} else {
				n += len(p.units[i].texts[coarse-1])
			}
		}
		return n
	}
	slices.SortStableFunc(groups, func(a, b []int) int { return cmp.Compare(size(b), size(a)) })
	return groups
}

// signatures returns the functions whose signatures are shown.
func (p *page) signatures() []string {
	var names []string
	for _, u := range p.units {
		for _, f := range u.functions {
			l, signature := p.levels[u.at], f.entry.Signature()
			if (l <= levelSignature || l == levelCall && withoutResult(signature) == signature) && !p.taught(f) {
				names = append(names, f.entry.Spec().Name)
			}
		}
	}
	return names
}
