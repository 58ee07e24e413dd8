package redisconn

import (
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/onecall-mcp/onecall/fault"
)

// settings parses the URL. Its error contains nothing of the URL or of the library's error, which may quote a password.
func (c *Client) settings() (*redis.Options, error) {
	settings, err := redis.ParseURL(c.o.URL)
	u, invalid := url.Parse(c.o.URL)
	if err != nil || invalid != nil || settings.DB < 0 || u.Fragment != "" || (settings.Network == "unix") != (u.Hostname() == "") ||
		!onlyDatabase(u) {
		return nil, fault.New(fault.BadRequest,
			"The URL of the %s cannot be used. Write redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path/to.sock?db=0; "+
				"characters such as # / ? @ %% in a password are written as %%23 %%2F %%3F %%40 %%25.", c.o.Name)
	}
	if settings.TLSConfig != nil && c.o.TLS != nil {
		clone := c.o.TLS.Clone()
		if clone.ServerName == "" {
			clone.ServerName = settings.TLSConfig.ServerName
		}
		settings.TLSConfig = clone
	}
	settings.DialTimeout, settings.DialerRetries = c.o.Timeout, 1
	settings.ReadTimeout, settings.WriteTimeout, settings.PoolTimeout = c.o.LongTimeout, c.o.LongTimeout, c.o.Timeout
	settings.ContextTimeoutEnabled = true // deadlines end operations, see Do
	settings.MaxRetries = -1              // see retry
	settings.Protocol = 2                 // RESP2
	// -1: the library has no separate pool for pipelines.
	settings.PoolSize, settings.MaxActiveConns, settings.PipelinePoolSize = poolSize, poolSize, -1
	settings.MaxIdleConns, settings.ConnMaxIdleTime = maxIdle, 5*time.Minute
	settings.DisableIdentity = true // send no CLIENT SETINFO
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return settings, nil
}

// onlyDatabase reports whether the query of a URL has only a database. Other settings of the library are not for users.
func onlyDatabase(u *url.URL) bool {
	query := u.Query()
	query.Del("db")
	return len(query) == 0
}
