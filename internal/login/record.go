package login

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"golang.org/x/oauth2"
)

// record is one login as the store keeps it.
type record struct {
	Version int    `json:"v"`
	Server  string `json:"server"`           // the endpoint that the tokens belong to
	Client  string `json:"client,omitempty"` // the ClientID of the configuration at the login; "": registered

	Issuer   string `json:"issuer"`
	Resource string `json:"resource"` // as the tokens were asked for (RFC 8707)
	TokenURL string `json:"token_url"`
	Revoke   string `json:"revoke_url,omitempty"`

	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"` // of a registered client only
	Style        oauth2.AuthStyle `json:"style"`

	Scopes []string `json:"scopes,omitempty"`
	Wanted []string `json:"wanted,omitempty"` // that the server has asked for since: the next login asks for them too

	Access   string    `json:"access"`
	Refresh  string    `json:"refresh,omitempty"`
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires,omitzero"` // zero: the server did not say
}

const recordVersion = 1

// load reads the login from the store; nil where there is none that fits the options.
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

// fresh tells whether the access token may be sent: it is renewed a little before its end, so that it does not expire on
// its way.
func (r *record) fresh(now time.Time) bool {
	if r.Expires.IsZero() {
		return true
	}
	margin := min(30*time.Second, r.Expires.Sub(r.Obtained)/10)
	return now.Before(r.Expires.Add(-margin))
}

// config is what x/oauth2 needs to ask for tokens in the name of the record's client.
func (s *server) config(r *record) *oauth2.Config {
	c := &oauth2.Config{ClientID: r.ClientID, ClientSecret: r.ClientSecret, Scopes: r.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: r.TokenURL, AuthStyle: r.Style}}
	if r.Client != "" && r.Client == r.ClientID {
		c.ClientSecret = s.o.ClientSecret
	}
	return c
}

// take puts the tokens of an answer into the record; denied where they cannot be used.
func (s *server) take(r *record, t *oauth2.Token, now time.Time) error {
	if t.Type() != "Bearer" || !sendable(t.AccessToken) || len(t.RefreshToken) > maxToken {
		return s.deny("what %s gave is not a bearer token that can be sent", hostOf(r.Issuer))
	}
	r.Access, r.Refresh, r.Obtained, r.Expires = t.AccessToken, t.RefreshToken, now, t.Expiry
	if scope, ok := t.Extra("scope").(string); ok && len(scope) <= maxToken {
		r.Scopes = strings.Fields(scope)
	}
	return nil
}

// sendable tells whether a token can stand in a header (RFC 6750, section 2.1, with some room).
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

// sameIssuer compares issuers but for a slash at the end, which servers and their documents often disagree about.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
