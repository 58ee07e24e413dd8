package openapi

// schemes reads the document's security schemes by name.
func (l *loader) schemes() map[string]scheme {
	root := l.document.root()
	declared := root.get("components").get("securitySchemes")
	if l.swagger2 {
		declared = root.get("securityDefinitions")
	}
	schemes := map[string]scheme{}
	for name, s := range declared.members() {
		if s, err := l.resolve(s); err == nil {
			schemes[name] = readScheme(s)
		}
	}
	return schemes
}

// securityOf returns the alternatives of an operation: its own, else the document's. An empty list means that no credentials are
// required.
func (l *loader) securityOf(operation value) []requirement {
	declared := operation.get("security")
	if declared.kind() != '[' {
		declared = l.document.root().get("security")
	}
	var alternatives []requirement
	for _, alternative := range declared.elements() {
		l.countWork(1)
		r := requirement{}
		for name, scopes := range alternative.members() {
			l.countWork(1)
			list := []string{}
			for _, scope := range scopes.elements() {
				list = append(list, scope.text())
			}
			r[name] = list
		}
		alternatives = append(alternatives, r)
	}
	return alternatives
}
