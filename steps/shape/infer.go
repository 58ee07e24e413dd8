package shape

import "bytes"

// Bounds of what is read of one result: bytes, values and levels.
const maxBytes, maxValues, maxDepth = 1 << 20, 4096, 10

// infer gives the shape of one result, which is compact JSON. Elements of an array have one shape together. Beyond the
// bounds nothing is known: objects that were not read to their end are open. The elements that were read stand for all.
func infer(result []byte) *node {
	s := scanner{data: result, values: maxValues}
	if len(s.data) > maxBytes {
		s.data = s.data[:maxBytes]
	}
	root := &node{}
	s.value(root, maxDepth)
	root.finish()
	return root
}

// finish makes maps of the objects whose names are data as a whole, and marks the members that some objects lack.
func (n *node) finish() {
	for _, m := range n.members {
		m.optional = m.seen < n.objects
		m.finish()
	}
	if n.others != nil {
		n.others.finish()
	}
	if n.items != nil {
		n.items.finish()
	}
	names := 0
	for _, m := range n.members {
		names += m.seen
	}
	if n.data > 0 && n.data >= names || n.alike() {
		n.toMap()
	}
}

// alike reports whether the members are records of one kind, whose names are data: at least three objects with the same
// members, of which there are two or more.
func (n *node) alike() bool {
	if len(n.members) < 3 {
		return false
	}
	first := n.members[0]
	for _, m := range n.members {
		if m.types != object || len(m.members) < 2 || len(m.members) != len(first.members) {
			return false
		}
		for _, inner := range m.members {
			if first.member(inner.name) == nil {
				return false
			}
		}
	}
	return true
}

// scanner reads compact JSON that is known to be valid, up to the end of data.
type scanner struct {
	data   []byte
	at     int
	values int // that may be looked at still
}

// value reads one value into n. At the end of data it stops wherever it is.
func (s *scanner) value(n *node, depth int) {
	if s.at >= len(s.data) {
		return
	}
	s.values--
	switch c := s.data[s.at]; c {
	case '{', '[':
		s.at++
		if depth == 0 || s.values <= 0 {
			n.types |= array
			if c == '{' {
				n.types ^= array
				n.types |= object
				n.open = true
			}
			s.skip()
			return
		}
		if c == '{' {
			n.types |= object
			s.object(n, depth-1)
		} else {
			n.types |= array
			s.array(n, depth-1)
		}
	case '"':
		n.types |= text
		s.string()
	default:
		n.types |= s.scalar()
	}
}

func (s *scanner) object(n *node, depth int) {
	n.objects++
	next := 0
	for s.at < len(s.data) && s.data[s.at] != '}' {
		if s.data[s.at] == ',' {
			s.at++
		}
		name, ok := s.string()
		if !ok || s.at >= len(s.data) {
			break
		}
		s.at++ // the colon
		if s.values <= 0 {
			n.open = true
			s.skip()
			return
		}
		s.value(n.named(name, next), depth)
		next++
		if len(n.members) > maxMembers {
			n.toMap()
		}
	}
	if s.at >= len(s.data) {
		n.open = true
		return
	}
	s.at++
}

// named is the node of a name that an object has. Objects of one array mostly have their members in one order, so the
// one at position is looked at first.
func (n *node) named(name []byte, position int) *node {
	var m *member
	if position < len(n.members) && n.members[position].name == string(name) {
		m = n.members[position]
	} else {
		m = n.member(string(name))
	}
	switch {
	case n.isMap:
		return n.other()
	case m == nil && isData(string(name)):
		n.data++
		return n.other()
	case m == nil:
		m = &member{name: string(name), node: &node{}}
		n.members = append(n.members, m)
	}
	m.seen++
	return m.node
}

func (s *scanner) array(n *node, depth int) {
	for s.at < len(s.data) && s.data[s.at] != ']' {
		if s.data[s.at] == ',' {
			s.at++
		}
		if s.values <= 0 {
			s.skip()
			return
		}
		s.value(n.item(), depth)
	}
	s.at++
}

// string reads a string and gives it as it is written, without its quotes; false if it does not end in data.
func (s *scanner) string() ([]byte, bool) {
	start := s.at + 1
	for i := start; i < len(s.data); i++ {
		end := bytes.IndexByte(s.data[i:], '"')
		if end < 0 {
			break
		}
		escape := bytes.IndexByte(s.data[i:i+end], '\\')
		if escape < 0 {
			s.at = i + end + 1
			return s.data[start : i+end], true
		}
		i += escape + 1 // what is escaped is passed over
	}
	s.at = len(s.data)
	return nil, false
}

func (s *scanner) scalar() types {
	start := s.at
	kind := integer
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ',', '}', ']':
			goto end
		case '.', 'e', 'E':
			kind = number
		}
		s.at++
	}
end:
	switch s.data[start] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	}
	return kind
}

// skip goes to the end of the object or array in which it stands.
func (s *scanner) skip() {
	for depth := 1; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			s.string()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return
			}
		}
		s.at++
	}
}
