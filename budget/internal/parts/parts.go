// Package parts tells which owner's results give way in a store that is full: those of the owner that has most of it. So one
// who keeps more and more loses its own, and who has less than an equal part of the store loses nothing to others (the longest
// queue drop of shared buffers: Hahne, Kesselman and Mansour, 2001). One owner alone may have all.
package parts

import "container/heap"

// Parts are the bytes that each owner has of a store. The zero value has no owners. It is for one goroutine at a time.
type Parts struct {
	owners map[string]*part // with anything
	order  order
	total  int64
}

type part struct {
	owner string
	bytes int64
	at    int // in order
}

// Add counts bytes to an owner, or from it where they are negative.
func (p *Parts) Add(owner string, bytes int64) {
	one := p.owners[owner]
	if one == nil {
		one = &part{owner: owner}
		if p.owners == nil {
			p.owners = map[string]*part{}
		}
		p.owners[owner] = one
		heap.Push(&p.order, one)
	}
	one.bytes += bytes
	p.total += bytes
	if one.bytes <= 0 {
		heap.Remove(&p.order, one.at)
		delete(p.owners, owner)
		return
	}
	heap.Fix(&p.order, one.at)
}

// Total is what all owners have.
func (p *Parts) Total() int64 { return p.total }

// Largest is the owner that has most; false where nobody has anything.
func (p *Parts) Largest() (owner string, ok bool) {
	if len(p.order) == 0 {
		return "", false
	}
	return p.order[0].owner, true
}

// Alone reports whether nobody but that owner has anything.
func (p *Parts) Alone(owner string) bool {
	return len(p.owners) == 0 || len(p.owners) == 1 && p.owners[owner] != nil
}

// order is a heap.Interface, the largest first.
type order []*part

func (o order) Len() int           { return len(o) }
func (o order) Less(i, j int) bool { return o[i].bytes > o[j].bytes }
func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

func (o *order) Push(x any) {
	one := x.(*part)
	one.at = len(*o)
	*o = append(*o, one)
}

func (o *order) Pop() any {
	last := len(*o) - 1
	one := (*o)[last]
	(*o)[last], *o = nil, (*o)[:last]
	return one
}
