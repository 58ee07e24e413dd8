// Package auth identifies callers by their bearer tokens and determines their rights. Tokens are those of a table, which holds
// their hashes, and JWTs of one issuer: onecall is an OAuth 2.1 resource server then (RFC 6750, RFC 9068). Receiving tokens and
// answering clients is the transport's job.
package auth
