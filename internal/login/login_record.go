package login

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"golang.org/x/oauth2"
)

// record is a stored login.
type record struct {
	Version int    `json:"v"`
	ID      string `json:"id,omitempty"`     // tells the login from earlier and later ones, whatever tokens it gets
	Server  string `json:"server"`           // endpoint that the tokens belong to
	Client  string `json:"client,omitempty"` // ClientID as it was configured at the login; "": none was

	Issuer   string `json:"issuer"`
	Resource string `json:"resource"` // resource of the token requests (RFC 8707)
	TokenURL string `json:"token_url"`
	Revoke   string `json:"revoke_url,omitempty"`

	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"` // the secret of a registered client only
	Style        oauth2.AuthStyle `json:"style"`

	Scopes        []string `json:"scopes,omitempty"`
	MissingScopes []string `json:"missing_scopes,omitempty"` // scopes that the server required later; the next login requests them

	Access   string    `json:"access"`
	Refresh  string    `json:"refresh,omitempty"`
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires,omitzero"` // zero: unknown
}

const recordVersion = 1

// load reads the login from the store; nil: there is none for these options.
func (s *server) load(ctx context.Context) (*record, error) {
	data, err := s.o.Store.Get(ctx, s.key())
	if err != nil || data == nil {
		return nil, err
	}
	r := new(record)
	if json.Unmarshal(data, r) != nil || r.Version != recordVersion {
		return nil, s.deny("its stored login was written by another version: %s", s.remedy())
	}
	if r.Server != s.endpoint || r.Client != s.o.ClientID || s.o.AuthServer != "" && !sameIssuer(r.Issuer, s.o.AuthServer) {
		return nil, nil
	}
	return r, nil
}

// save writes the login to the store.
func (s *server) save(ctx context.Context, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fault.New(fault.Internal, "a login could not be encoded")
	}
	return s.o.Store.Set(ctx, s.key(), data)
}

// fresh reports whether the access token may be sent. Tokens are renewed a little before they expire, so that they do not expire
// on their way.
func (r *record) fresh(now time.Time) bool {
	if r.Expires.IsZero() {
		return true
	}
	margin := min(30*time.Second, r.Expires.Sub(r.Obtained)/10)
	return now.Before(r.Expires.Add(-margin))
}

// config returns the x/oauth2 configuration of the record's client.
func (s *server) config(r *record) *oauth2.Config {
	c := &oauth2.Config{ClientID: r.ClientID, ClientSecret: r.ClientSecret, Scopes: r.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: r.TokenURL, AuthStyle: r.Style}}
	if r.Client != "" && r.Client == r.ClientID {
		c.ClientSecret = s.o.ClientSecret
	}
	return c
}

// setTokens sets the tokens of the record to those of a response; denied if they are unusable.
func (s *server) setTokens(r *record, t *oauth2.Token, now time.Time) error {
	if t.Type() != "Bearer" || !sendable(t.AccessToken) || len(t.RefreshToken) > maxToken {
		return s.deny("%s gave no bearer token that can be sent", hostOf(r.Issuer))
	}
	r.Access, r.Refresh, r.Obtained, r.Expires = t.AccessToken, t.RefreshToken, now, t.Expiry
	if scope, ok := t.Extra("scope").(string); ok && len(scope) <= maxToken {
		r.Scopes = strings.Fields(scope)
	}
	return nil
}

// sendable reports whether a token can be sent in a header (RFC 6750, section 2.1, a little relaxed).
func sendable(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// sameIssuer reports whether two issuers are equal, apart from a trailing slash, about which servers and their metadata often disagree.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
