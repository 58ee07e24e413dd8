package draw

import (
	"cmp"
	"iter"
	"math/big"
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
	waves  int // the folded waves; 0: the node is in the column of its wave
	column int
	y, h   float64 // top and height
	order  float64 // its place in its column

	before, after []*node        // the nodes of the columns around it that an edge joins it with
	reads         map[*node]bool // those of after that read its result
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
	l.sweep(slices.All(l.columns), func(n *node) []*node { return n.before })
	l.sweep(slices.Backward(l.columns), func(n *node) []*node { return n.after })
	l.stack()
	return l
}

// fold makes a column of each wave, and a node of each step. What is too much becomes one node for some steps of a wave, or one column for
// some waves.
func (l *layout) fold() {
	isUrgent := func(step int) bool { return l.g.Steps[step].Status.isUrgent() }
	waves := l.g.Waves
	shown := pick(len(waves), maxColumns, func(i int) bool { return slices.ContainsFunc(waves[i], isUrgent) })
	rows := maxNodes
	if len(l.g.Steps) > maxNodes {
		rows = max(maxNodes/max(min(len(waves), 2*maxColumns), 1), 3)
	}
	for i, wave := range waves {
		if i == 0 || shown[i] || shown[i-1] {
			l.columns = append(l.columns, nil)
		}
		limit := len(wave)
		switch {
		case !shown[i]:
			limit = 0
		case limit > rows:
			limit = rows - 1
		}
		nodes := pick(len(wave), limit, func(i int) bool { return isUrgent(wave[i]) })
		var last *node
		for i, step := range wave {
			last = l.place(step, !nodes[i])
		}
		if !shown[i] && last != nil {
			last.waves++
		}
	}
	for n := range l.nodes() {
		n.h = n.height(l.g)
	}
}

// place puts a step into the last column: into a node of its own, or into the one of those that are folded, which is the last.
func (l *layout) place(step int, folded bool) *node {
	last := len(l.columns) - 1
	column, n := l.columns[last], &node{column: last, folded: folded}
	end := len(column)
	if end > 0 && column[end-1].folded {
		end--
	}
	if folded && end < len(column) {
		n = column[end]
	} else {
		l.columns[last] = slices.Insert(column, end, n)
	}
	n.steps, l.of[step] = append(n.steps, step), n
	return n
}

// connect joins nodes with those of the next column. An edge that spans more columns passes through those between, in one place for all
// edges of its first node.
func (l *layout) connect() {
	type place struct {
		from   *node
		column int
	}
	places := map[place]*node{}
	for e := range l.g.edges() {
		from, to := l.of[e.from], l.of[e.to]
		if from.column >= to.column {
			continue // both are folded
		}
		at := from
		for column := at.column + 1; column < to.column; column++ {
			here := place{from, column}
			if places[here] == nil {
				places[here] = &node{column: column, h: passing}
				l.columns[column] = append(l.columns[column], places[here])
			}
			at.join(places[here], e.reads)
			at = places[here]
		}
		at.join(to, e.reads)
	}
	for _, column := range l.columns {
		renumber(column)
	}
}

func renumber(column []*node) {
	for i, n := range column {
		n.order = float64(i)
	}
}

func (n *node) join(next *node, reads bool) {
	if n.reads == nil {
		n.reads = map[*node]bool{}
	}
	if _, joined := n.reads[next]; !joined {
		n.after, next.before = append(n.after, next), append(next.before, n)
	}
	n.reads[next] = n.reads[next] || reads
}

// edge is drawn from a step to one that waits for it.
type edge struct {
	from, to int
	reads    bool // the second one reads the result of the first one
}

// edges returns what is drawn of what steps wait for. A step that another one only waits for is left out if it must have ended anyway,
// since a third one between them waits for it, too.
func (g *Graph) edges() iter.Seq[edge] {
	return func(yield func(edge) bool) {
		earlier, readBy := g.earlier(), make([]int, len(g.Steps)) // readBy: the last one, counted from 1
		for to := range g.Steps {
			s := &g.Steps[to]
			for _, from := range s.Needs {
				readBy[from] = to + 1
			}
			for _, from := range s.After {
				e := edge{from, to, readBy[from] == to+1}
				if (e.reads || earlier[to].Bit(from) == 0) && !yield(e) {
					return
				}
			}
		}
	}
}

// earlier returns for each step the set of the steps that end before one that it waits for starts. The later ones of After, which come
// first, have most of the others in their sets, so that few sets are joined.
func (g *Graph) earlier() []big.Int {
	sets, whole := make([]big.Int, len(g.Steps)), make([]big.Int, len(g.Steps)) // whole: with the steps that it waits for
	for _, step := range slices.Concat(g.Waves...) {
		for _, from := range slices.Backward(g.Steps[step].After) {
			if sets[step].Bit(from) == 0 {
				sets[step].Or(&sets[step], &whole[from])
				whole[step].SetBit(&whole[step], from, 1)
			}
		}
		whole[step].Or(&whole[step], &sets[step])
	}
	return sets
}

// sweep orders each column by the mean place of the neighbors of its nodes. A node without neighbors keeps its place.
func (l *layout) sweep(columns iter.Seq2[int, []*node], neighbors func(*node) []*node) {
	for _, column := range columns {
		for _, n := range column {
			if near := neighbors(n); len(near) > 0 {
				n.order = mean(near, func(n *node) float64 { return n.order })
			}
		}
		slices.SortStableFunc(column, func(a, b *node) int { return cmp.Compare(a.order, b.order) })
		renumber(column)
	}
}

// mean returns the mean of a value of nodes; 0: there are none.
func mean(nodes []*node, value func(*node) float64) (sum float64) {
	for _, n := range nodes {
		sum += value(n) / float64(len(nodes))
	}
	return sum
}

// stack sets the height at which each node stands: near the middle of those before it, and apart from the others of its column.
func (l *layout) stack() {
	top := 0.0
	for _, column := range l.columns {
		bottom, want := -1e9, map[*node]float64{}
		for _, n := range column {
			want[n] = mean(n.before, (*node).middle) - n.h/2
			n.y = max(want[n], bottom)
			bottom = n.y + n.h + rowGap
		}
		shift := mean(column, func(n *node) float64 { return want[n] - n.y })
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
func (l *layout) nodes() iter.Seq[*node] { return slices.Values(slices.Concat(l.columns...)) }

// size returns the size of the picture.
func (l *layout) size() (width, height float64) {
	for n := range l.nodes() {
		width, height = max(width, n.x()+nodeWidth), max(height, n.y+n.h)
	}
	return width + margin, height + margin
}
