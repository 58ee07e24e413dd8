package config

import "github.com/onecall-mcp/onecall/fault"

// Credential holds the credentials of one security scheme: a value (API key, bearer token), a user name with a password (basic), or a
// client (OAuth 2.0 client credentials).
type Credential struct {
	// An API key, or a bearer token.
	Value *string `yaml:"value" also:"token" expand:"credential"`
	// For HTTP Basic, together with password.
	Username *string `yaml:"username" expand:"text" validate:"min=1"`
	Password *string `yaml:"password" expand:"credential"`
	// For OAuth 2.0 client credentials, together with clientSecret.
	ClientID     *string `yaml:"clientId" expand:"text" validate:"min=1"`
	ClientSecret *string `yaml:"clientSecret" expand:"credential"`
	// Replaces the document's token URL.
	TokenURL *string  `yaml:"tokenUrl" expand:"text" validate:"min=1"`
	Scopes   []string `yaml:"scopes"`
}

// checkAuth checks that a credential has exactly one of its three forms, and nothing of that form is missing.
func (d *decoder) checkAuth(at string, a *Credential) {
	var forms int
	var lacks string
	form := func(is bool, lacking string) {
		if is {
			forms++
			lacks = lacking
		}
	}
	form(a.Value != nil, "")
	form(a.Username != nil || a.Password != nil, missing([]string{"username", "password"}, a.Username, a.Password))
	form(a.ClientID != nil || a.ClientSecret != nil || a.TokenURL != nil || len(a.Scopes) > 0,
		missing([]string{"clientId", "clientSecret"}, a.ClientID, a.ClientSecret))
	switch {
	case forms != 1:
		d.faultAt(at, fault.BadRequest,
			"needs one of: value (an API key or a bearer token); username and password; clientId and clientSecret (OAuth 2.0 client credentials)")
	case lacks != "":
		d.faultAt(at, fault.BadRequest, "%s is missing", lacks)
	}
}

// missing returns the name of the first value that is nil, or "".
func missing(names []string, values ...*string) string {
	for i, value := range values {
		if value == nil {
			return names[i]
		}
	}
	return ""
}
