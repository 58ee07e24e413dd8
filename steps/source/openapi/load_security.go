package openapi

import "strings"

// schemes reads the document's security schemes by name.
func (l *loader) schemes() map[string]scheme {
	root := l.root.root()
	declared := root.get("components").get("securitySchemes")
	if l.old {
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

func readScheme(s value) scheme {
	switch strings.ToLower(s.get("type").text()) {
	case "apikey":
		return scheme{kind: "apiKey", in: s.get("in").text(), name: s.get("name").text()}
	case "basic":
		return scheme{kind: "basic"}
	case "http":
		switch strings.ToLower(s.get("scheme").text()) {
		case "basic":
			return scheme{kind: "basic"}
		case "bearer":
			return scheme{kind: "bearer"}
		}
	case "oauth2":
		flow := s.get("flows").get("clientCredentials")
		if word := s.get("flow").text(); word == "application" || word == "clientCredentials" {
			flow = s // Swagger 2.0
		}
		o := scheme{kind: "oauth2", tokenURL: flow.get("tokenUrl").text()}
		for scope := range flow.get("scopes").members() {
			o.scopes = append(o.scopes, scope)
		}
		return o
	}
	return scheme{kind: "other"}
}

// securityOf lists the alternatives of an operation: its own, else the document's. An empty list of its own asks for
// nothing.
func (l *loader) securityOf(operation value) []requirement {
	declared := operation.get("security")
	if declared.kind() != '[' {
		declared = l.root.root().get("security")
	}
	var alternatives []requirement
	for _, alternative := range declared.elements() {
		l.spend(1)
		r := requirement{}
		for name, scopes := range alternative.members() {
			l.spend(1)
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
