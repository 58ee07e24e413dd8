package redisconn

import (
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/onecall-mcp/onecall/fault"
)

// settings reads the URL. No error repeats any of it but its scheme: anything else of a misspelt one may be the password.
func (c *Client) settings() (*redis.Options, error) {
	u, err := url.Parse(c.o.URL)
	if err != nil {
		return nil, c.badURL("cannot be read; characters such as # / ? @ %% in a password are written as %%23 %%2F %%3F %%40 %%25.")
	}
	query := u.Query()
	if u.Scheme == "unix" {
		query.Del("db")
	}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, c.badURL("begins with %.20q.", u.Scheme)
	case len(query) > 0 || u.Fragment != "" || u.Opaque != "":
		return nil, c.badURL("has parts that are not known (a query, a fragment).")
	case u.Scheme == "unix" && (u.Path == "" || u.Host != ""):
		return nil, c.badURL("names no socket by its whole path.")
	case u.Scheme != "unix" && u.Hostname() == "":
		return nil, c.badURL("names no host.")
	}
	settings, err := redis.ParseURL(c.o.URL)
	if err != nil || settings.DB < 0 {
		return nil, c.badURL("names no database by its number.")
	}
	c.complete(settings)
	return settings, nil
}

func (c *Client) badURL(format string, args ...any) error {
	return fault.New(fault.BadRequest, "The URL of the "+c.o.Name+" "+format+" Write redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path/to.sock.", args...)
}

// complete sets all that the URL does not say.
func (c *Client) complete(settings *redis.Options) {
	d := &dialer{silence: c.o.Timeout, more: c.o.Longest - c.o.Timeout, tls: settings.TLSConfig}
	if d.tls != nil && c.o.TLS != nil {
		own := c.o.TLS.Clone()
		if own.ServerName == "" {
			own.ServerName = settings.TLSConfig.ServerName
		}
		d.tls = own
	}
	settings.Dialer = d.dial
	settings.DialTimeout, settings.DialerRetries = c.o.Timeout, 1
	settings.ReadTimeout, settings.WriteTimeout, settings.PoolTimeout = c.o.Longest, c.o.Longest, c.o.Timeout
	settings.ContextTimeoutEnabled = true
	settings.MaxRetries = -1 // again tries again
	settings.Protocol = 2
	settings.PoolSize, settings.MaxActiveConns, settings.PipelinePoolSize = pooled, pooled, -1
	settings.MaxIdleConns, settings.ConnMaxIdleTime = idle, 5*time.Minute
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
