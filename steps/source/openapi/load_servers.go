package openapi

import "strings"

// operationURLs returns an operation's base URLs: its own, else its path's, else the document's.
func (l *loader) operationURLs(node *operationNode) []string {
	if l.swagger2 {
		return l.swagger2URLs(node.operation)
	}
	for _, holder := range []value{node.operation, node.item, l.document.root()} {
		if list := l.serverURLs(holder.get("servers")); len(list) > 0 {
			return list
		}
	}
	return []string{"/"}
}

// serverURLs returns the URLs of a servers list, with variables replaced by their defaults, else by their first allowed value. A URL with a
// variable that has neither is left out.
func (l *loader) serverURLs(list value) []string {
	var urls []string
	for _, server := range list.elements() {
		l.countWork(1)
		url := server.get("url").text()
		variables := server.get("variables")
		complete := url != ""
		url = placeholderPattern.ReplaceAllStringFunc(url, func(placeholder string) string {
			variable := variables.get(strings.Trim(placeholder, "{}"))
			text := plainText(variable.get("default"))
			if text == "" {
				for _, allowed := range variable.get("enum").elements() {
					text = plainText(allowed)
					break
				}
			}
			complete = complete && (text != "" || variable.get("default").kind() == '"')
			return text
		})
		if complete {
			urls = append(urls, url)
		}
	}
	return urls
}

// plainText returns a string, a number or a boolean as text; "" for other values.
func plainText(v value) string {
	switch v.kind() {
	case '"':
		return v.text()
	case '0', 't', 'f':
		return string(v.raw())
	}
	return ""
}

// swagger2URLs returns the base URLs of a Swagger 2 document: its schemes, host and basePath. https comes first.
func (l *loader) swagger2URLs(operation value) []string {
	root := l.document.root()
	host, base := root.get("host").text(), root.get("basePath").text()
	if !strings.HasPrefix(base, "/") {
		base = "/" + base
	}
	if host == "" {
		return []string{base}
	}
	schemes := operation.get("schemes")
	if !schemes.ok() {
		schemes = root.get("schemes")
	}
	var urls []string
	for _, scheme := range schemes.elements() {
		if l.countWork(1); len(urls) > 10 {
			break
		}
		switch scheme.text() {
		case "https":
			urls = append([]string{"https://" + host + base}, urls...)
		case "http":
			urls = append(urls, "http://"+host+base)
		}
	}
	if len(urls) == 0 {
		urls = []string{"https://" + host + base}
	}
	return urls
}
