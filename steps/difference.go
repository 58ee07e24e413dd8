package steps

import (
	"fmt"
	"strings"
)

// DifferenceText says which functions of the source differ from what the operator has accepted, a few by name; "": none does, or the
// reader must not know.
func (s *SourceInfo) DifferenceText() string {
	const most = 5
	served, refused := []string{}, []string{}
	for i := range s.Differing {
		d := &s.Differing[i]
		text := d.Spec.Name + " (" + d.How + ")"
		if d.Serves {
			served = append(served, text)
		} else {
			refused = append(refused, text)
		}
	}
	var parts []string
	for _, group := range []struct {
		what string
		list []string
	}{{"not served, because not as the lock says: ", refused}, {"not as the lock says: ", served}} {
		switch list := group.list; {
		case len(list) > most:
			parts = append(parts, group.what+strings.Join(list[:most], ", ")+fmt.Sprintf(" and %d more", len(list)-most))
		case len(list) > 0:
			parts = append(parts, group.what+strings.Join(list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
