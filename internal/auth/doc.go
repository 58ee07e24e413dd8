// Package auth tells who a caller is by its bearer token, and what it may use. Tokens are those of a table that holds
// their hashes, and the JWTs that one issuer has signed: onecall is then an OAuth 2.1 resource server (RFC 6750, RFC 9068).
// How a token comes here, and what a client is told where it is refused, is the transport's concern.
package auth
