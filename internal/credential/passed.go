package credential

import (
	"context"

	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// passedCredential returns the credential that consists of headers of the caller's request.
func passedCredential(name, digest string, headers map[string]string) *steps.Credential {
	c := &steps.Credential{Name: name, Digest: digest,
		Headers: func(context.Context) (map[string]string, error) { return headers, nil }}
	var secrets []string
	for header, value := range headers {
		if secret.Name(header) { // a tenant is no secret, and may be a word of each result
			secrets = append(secrets, secret.UnusualComponents(value)...)
		}
	}
	if scrubber := secret.New(secrets); scrubber != nil {
		c.Scrubber = scrubber
	}
	return c
}
