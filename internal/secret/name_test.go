package secret

import "testing"

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"TOKEN", "GITHUB_TOKEN", "apiKey", "API_KEY", "api-key", "X-Api-Key", "APIKEY", "DB_PASSWORD", "dbPassword",
		"GITHUB_PAT", "Authorization", "Cookie", "SESSION", "AWS_SECRET_ACCESS_KEY", "credentials", "auth", "SENTRY_DSN", "accessKeyId", "X-Auth",
		"sessionid", "JSESSIONID", "sig", "X-Amz-Signature", "private_key", "otp", "pin", "refresh-token", "access_token", "client_secret",
		"next_secret", "secret", "x-csrf-token", "passwd", "passphrase", "oauthConsumer", "session_token", "clientKey", "client-key",
		"clientKeyData",
		"CLIENT_KEY", "SSHKey", "RSAKey", "sshKeys", "encryption_key", "appKey", "licenseKey", "APIKeys", "userPIN"} {
		if !Name(name) || !Argument(name) {
			t.Errorf("%s: Name %t, Argument %t, want both true", name, Name(name), Argument(name))
		}
	}
	for _, name := range []string{"", "MONKEY", "PATH", "AUTHOR", "KEYCLOAK_HOST", "TOKEN_FILE", "AUTH_MODE", "SSH_AUTH_SOCK",
		"SESSION_DIR", "HOST",
		"Idempotency-Key", "passage", "compass", "path", "pattern", "keyword", "secret_name", "secretName", "token_type", "tokenUrl",
		"max_tokens",
		"maxTotalTokens", "publicKey", "ssh_public_key"} {
		if Name(name) || Argument(name) {
			t.Errorf("%s: Name %t, Argument %t, want both false", name, Name(name), Argument(name))
		}
	}
	for _, name := range []string{"SSHPASS", "FTPPASS", "DBPASS", "DBPWD", "DB_CRED", "PRIVATE_PEM", "TS_AUTHKEY", "Authentication",
		"X-Authkey", "X-Passkey", "pageToken", "page_token", "NextToken", "nextPageToken", "next_page_token", "continuation_token",
		"continuationToken",
		"clientToken", "ClientRequestToken", "client_token", "CLIENT_TOKEN", "syncToken", "SYNC_TOKEN", "starting-token", "nexttoken", "key",
		"keys",
		"issueKey", "projectKey", "sort_key", "OPENAI_KEY"} {
		if !Name(name) || Argument(name) {
			t.Errorf("%s: Name %t, Argument %t, want only Name true", name, Name(name), Argument(name))
		}
	}
}

// TestVariable: the value of an environment variable is secret by its name, or if it looks like a key, as long numbers do.
func TestVariable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, value string
		want        bool
	}{
		{"TOKEN", "x", true}, {"ACCOUNT", "12345678901234567890", true}, {"ACCOUNT", "a1b2c3d4e5f6a7b8c9d0", true},
		{"ACCOUNT", "1234567890", false},
		{"ROOT", "/home/user/20250101/long/folder", false}, {"FILE", "report-2025-01-01-final.json", false},
		{"MODE", "a-very-long-word-indeed", false},
	} {
		if got := Variable(test.name, test.value); got != test.want {
			t.Errorf("Variable(%s, %s) = %t, want %t", test.name, test.value, got, test.want)
		}
	}
}
