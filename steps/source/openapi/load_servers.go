package openapi

import "strings"

// serversOf returns the base URLs: the operation's, else its path's, else the document's.
func (l *loader) serversOf(node *operationNode) []string {
	if l.swagger2 {
		return l.oldServers(node.operation)
	}
	for _, holder := range []value{node.operation, node.item, l.root.root()} {
		if list := l.servers(holder.get("servers")); len(list) > 0 {
			return list
		}
	}
	return []string{"/"}
}

// servers fills in the variables with their defaults, else with their first allowed value. A URL with a variable that has
// neither is left out.
func (l *loader) servers(list value) []string {
	var urls []string
	for _, server := range list.elements() {
		l.spend(1)
		url := server.get("url").text()
		variables := server.get("variables")
		complete := url != ""
		url = pathParameter.ReplaceAllStringFunc(url, func(placeholder string) string {
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

// plainText returns a scalar as text.
func plainText(v value) string {
	switch v.kind() {
	case '"':
		return v.text()
	case '0', 't', 'f':
		return string(v.raw())
	}
	return ""
}

// oldServers combines schemes, host and basePath; https comes first.
func (l *loader) oldServers(operation value) []string {
	root := l.root.root()
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
		if l.spend(1); len(urls) > 10 {
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
