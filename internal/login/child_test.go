package login

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// child is what the test binary does if a test starts it again as a process of its own. It returns the exit status, 0 for success.
func child(what string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	switch what {
	case "renew":
		err = childRenew(ctx)
	case "keyring":
		err = childKeyring(ctx)
	default:
		err = fmt.Errorf("unknown task %q", what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childRenew prints the token that a handler returns.
func childRenew(ctx context.Context) error {
	h, err := Handler(&Options{Source: "hub", ServerURL: os.Getenv("ONECALL_OAUTH_URL"), Store: newFileStore(os.Getenv("ONECALL_OAUTH_FILE")),
		HTTPClient: &http.Client{}})
	if err != nil {
		return err
	}
	tokens, err := h.TokenSource(ctx)
	if err != nil {
		return err
	}
	token, err := tokens.Token()
	if err != nil {
		return err
	}
	fmt.Print(token.AccessToken)
	return nil
}
