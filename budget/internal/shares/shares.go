// Package shares decides whose results a full store removes: those of the owner that uses most of it. An owner who stores more and more
// loses its own results, and one who uses less than an equal share loses nothing to others (the longest queue drop of shared buffers:
// Hahne, Kesselman and Mansour, 2001). A single owner may use the whole store.
package shares

import "container/heap"

// Shares are the bytes of a store used by each owner. The zero value has no owners. It is not safe for concurrent use.
type Shares struct {
	owners map[string]*share // the shares of the owners that use anything
	order  shareHeap
	total  int64
}

type share struct {
	owner string
	bytes int64
	index int // the index in order
}

// Add adds bytes to an owner's share; negative bytes are subtracted. An owner whose share falls to 0 is removed.
func (s *Shares) Add(owner string, bytes int64) {
	one := s.owners[owner]
	if one == nil {
		one = &share{owner: owner}
		if s.owners == nil {
			s.owners = map[string]*share{}
		}
		s.owners[owner] = one
		heap.Push(&s.order, one)
	}
	one.bytes += bytes
	s.total += bytes
	if one.bytes <= 0 {
		heap.Remove(&s.order, one.index)
		delete(s.owners, owner)
		return
	}
	heap.Fix(&s.order, one.index)
}

// Total returns the sum of all shares.
func (s *Shares) Total() int64 { return s.total }

// Largest returns the owner that uses most; ok is false if the store is empty.
func (s *Shares) Largest() (owner string, ok bool) {
	if len(s.order) == 0 {
		return "", false
	}
	return s.order[0].owner, true
}

// Alone reports whether no other owner uses anything.
func (s *Shares) Alone(owner string) bool {
	return len(s.owners) == 0 || len(s.owners) == 1 && s.owners[owner] != nil
}

// shareHeap is a heap.Interface, the largest first.
type shareHeap []*share

func (o shareHeap) Len() int           { return len(o) }
func (o shareHeap) Less(i, j int) bool { return o[i].bytes > o[j].bytes }
func (o shareHeap) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

func (o *shareHeap) Push(x any) {
	one := x.(*share)
	one.index = len(*o)
	*o = append(*o, one)
}

func (o *shareHeap) Pop() any {
	last := len(*o) - 1
	one := (*o)[last]
	(*o)[last], *o = nil, (*o)[:last]
	return one
}
