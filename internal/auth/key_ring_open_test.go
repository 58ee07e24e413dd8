package auth_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/auth"
)

// TestSharedKeysWithoutLog: keys that are opened without a log are reloaded without one.
func TestSharedKeysWithoutLog(t *testing.T) {
	t.Parallel()
	name, write := keyFileOf(t, jwks(rsaPair.jwk(nil)))
	synctest.Test(t, func(t *testing.T) {
		keys, err := auth.OpenKeys(&auth.Options{JWT: &auth.JWT{Issuer: "ours", Keys: name}})
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		known := table(t, "ours", name, func(o *auth.Options) { o.Keys = keys })
		defer known.Close()
		write(jwks(ecPair.jwk(nil)))
		time.Sleep(time.Minute)
		if _, err := known.Verify(t.Context(), ecPair.plain("ours")); err != nil {
			t.Errorf("a key that was added to the file: got %v, want no error", err)
		}
	})
}
