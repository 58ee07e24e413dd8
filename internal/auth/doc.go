// Package auth identifies callers by their bearer tokens and determines their rights. It accepts the tokens of a table, which holds only
// their hashes, and the JWTs of one issuer, for which onecall is an OAuth 2.1 resource server (RFC 6750, RFC 9068). The transport receives
// tokens and answers clients.
package auth
