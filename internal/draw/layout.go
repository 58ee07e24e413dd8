package draw

import (
	"cmp"
	"iter"
	"slices"
)

// The bounds of a graph's picture. A graph of at most maxNodes steps in at most maxColumns waves is shown whole.
const (
	maxNodes   = 160
	maxColumns = 40
	maxLines   = 8 // the steps of an inline chain in its node
)

// The measures of a graph's picture.
const (
	nodeWidth = 240.0
	columnGap = 56.0
	rowGap    = 14.0
	passing   = 8.0 // the height that an edge takes in a column that it passes through
	margin    = 12.0
)

// node is a box, or a place where edges pass through a column.
type node struct {
	steps  []int // the step, or those that are folded; none: edges pass here
	folded bool
	waves  int // the folded waves; 0: one wave, or a part of it
	column int
	y, h   float64 // top and height
	before []*node // the nodes of the columns around it that an edge joins it with
	after  []*node
	solid  map[*node]bool // those of after that an edge leads to, by whether it is a reference
	order  float64
}

func (n *node) x() float64      { return margin + float64(n.column)*(nodeWidth+columnGap) }
func (n *node) middle() float64 { return n.y + n.h/2 }

// layout places the nodes of a graph.
type layout struct {
	g       *Graph
	columns [][]*node
	of      []*node // the node of each step
}

func newLayout(g *Graph) *layout {
	l := &layout{g: g, of: make([]*node, len(g.Steps))}
	l.fold()
	l.connect()
	l.sweep((*node).befores, slices.All(l.columns))
	l.sweep((*node).afters, slices.Backward(l.columns))
	l.stack()
	return l
}

// edges returns the steps that a step waits for, and whether it reads their results. One that it only waits for is left out if another
// one waits for it, too.
func (g *Graph) edges(step int) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		s := &g.Steps[step]
		needs, implied := make([]bool, len(g.Steps)), make([]bool, len(g.Steps))
		for _, j := range s.Needs {
			needs[j] = true
		}
		if len(s.Needs) < len(s.After) {
			for _, j := range s.After {
				for _, k := range g.Steps[j].After {
					implied[k] = true
				}
			}
		}
		for _, j := range s.After {
			if (needs[j] || !implied[j]) && !yield(j, needs[j]) {
				return
			}
		}
	}
}

func (n *node) befores() []*node { return n.before }
func (n *node) afters() []*node  { return n.after }

// fold makes a column of each wave, and a node of each step. What is too much becomes one node for some steps of a wave, or one column for
// some waves.
func (l *layout) fold() {
	waves := l.g.Waves
	shown := pick(len(waves), maxColumns, func(i int) bool { return slices.ContainsFunc(waves[i], l.isUrgent) })
	rows := maxNodes
	if len(l.g.Steps) > maxNodes {
		rows = max(maxNodes/max(min(len(waves), 2*maxColumns), 1), 3)
	}
	var hidden *node
	for i, wave := range waves {
		if !shown[i] {
			if hidden == nil {
				hidden = &node{folded: true}
				l.columns = append(l.columns, []*node{hidden})
			}
			hidden.waves++
			l.add(hidden, wave)
			continue
		}
		hidden = nil
		l.columns = append(l.columns, nil)
		l.column(wave, rows)
	}
}

func (l *layout) isUrgent(step int) bool { return l.g.Steps[step].Status.isUrgent() }

// column fills the last column with the steps of a wave, in at most rows nodes.
func (l *layout) column(wave []int, rows int) {
	last := &l.columns[len(l.columns)-1]
	limit := len(wave)
	if limit > rows {
		limit = rows - 1
	}
	shown := pick(len(wave), limit, func(i int) bool { return l.isUrgent(wave[i]) })
	rest := &node{folded: true}
	for i, step := range wave {
		if !shown[i] {
			l.add(rest, wave[i:i+1])
			continue
		}
		n := &node{}
		l.add(n, []int{step})
		*last = append(*last, n)
	}
	if len(rest.steps) > 0 {
		*last = append(*last, rest)
	}
}

func (l *layout) add(n *node, steps []int) {
	n.column = len(l.columns) - 1
	n.steps = append(n.steps, steps...)
	for _, step := range steps {
		l.of[step] = n
	}
	n.h = nodeHeight(l.g, n)
}

// connect joins nodes with those of the next column. An edge that spans more columns passes through those between, in one place for all
// edges of its first node.
func (l *layout) connect() {
	type place struct {
		from   *node
		column int
	}
	places := map[place]*node{}
	for i := range l.g.Steps {
		to := l.of[i]
		if to == nil {
			continue
		}
		for j, solid := range l.g.edges(i) {
			from := l.of[j]
			if from == nil || from.column >= to.column {
				continue
			}
			at := from
			for column := from.column + 1; column < to.column; column++ {
				next := places[place{from, column}]
				if next == nil {
					next = &node{column: column, h: passing}
					places[place{from, column}] = next
					l.columns[column] = append(l.columns[column], next)
				}
				at.join(next, solid)
				at = next
			}
			at.join(to, solid)
		}
	}
	for _, column := range l.columns {
		for i, n := range column {
			n.order = float64(i)
		}
	}
}

func (n *node) join(next *node, solid bool) {
	if n.solid == nil {
		n.solid = map[*node]bool{}
	}
	had, joined := n.solid[next]
	n.solid[next] = had || solid
	if !joined {
		n.after, next.before = append(n.after, next), append(next.before, n)
	}
}

// sweep orders each column by the mean place of the neighbors of its nodes in the column before it in the sweep. A node without such
// neighbors keeps its place.
func (l *layout) sweep(neighbors func(*node) []*node, columns iter.Seq2[int, []*node]) {
	for _, column := range columns {
		mean := map[*node]float64{}
		for _, n := range column {
			mean[n] = n.order
			if near := neighbors(n); len(near) > 0 {
				sum := 0.0
				for _, other := range near {
					sum += other.order
				}
				mean[n] = sum / float64(len(near))
			}
		}
		slices.SortStableFunc(column, func(a, b *node) int { return cmp.Compare(mean[a], mean[b]) })
		for i, n := range column {
			n.order = float64(i)
		}
	}
}

// stack sets the height at which each node stands: near the middle of those before it, and apart from the others of its column.
func (l *layout) stack() {
	top := 0.0
	for _, column := range l.columns {
		bottom, shift := -1e9, 0.0
		for _, n := range column {
			want := 0.0
			for _, before := range n.before {
				want += before.middle() / float64(len(n.before))
			}
			want -= n.h / 2
			n.y = max(want, bottom)
			bottom, shift = n.y+n.h+rowGap, shift+(want-n.y)/float64(len(column))
		}
		for _, n := range column {
			n.y += shift
			top = min(top, n.y)
		}
	}
	for n := range l.nodes() {
		n.y += margin - top
	}
}

// nodes returns all nodes, column by column.
func (l *layout) nodes() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for _, column := range l.columns {
			for _, n := range column {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// size returns the size of the picture.
func (l *layout) size() (width, height float64) {
	for n := range l.nodes() {
		height = max(height, n.y+n.h)
	}
	count := float64(max(len(l.columns), 1))
	return 2*margin + count*(nodeWidth+columnGap) - columnGap, height + margin
}
