package credential

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// twoFunctions is a source with a function that needs the credential inventory, and one that needs none.
type twoFunctions struct{}

func (twoFunctions) Close() error { return nil }
func (twoFunctions) Functions() []steps.Function {
	call := func(ctx context.Context, _ []byte) ([]byte, error) {
		if c := steps.CredentialOf(ctx); c != nil {
			if _, err := c.Headers(ctx); err != nil {
				return nil, err
			}
		}
		return []byte(`{"ok":true}`), nil
	}
	return []steps.Function{
		{Spec: steps.Spec{Name: "inventory.own", Needs: "inventory", Effect: steps.Read}, Call: call, Prompt: true},
		{Spec: steps.Spec{Name: "inventory.open", Effect: steps.Read}, Call: call, Prompt: true},
	}
}

// BenchmarkCall compares a call with a credential that the table knows, from the headers of the request on, with one that needs none.
func BenchmarkCall(b *testing.B) {
	table, ann := New(rules, nil), &steps.Caller{ID: "token:ann"}
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{Credentials: table})
	if err == nil {
		err = catalog.Add("inventory", twoFunctions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	all := steps.NewView(catalog, func(*steps.Spec) bool { return true })
	request := header("X-Tenant", "acme", "Authorization", "Bearer t", "Accept", "*/*", "Content-Type", "application/json")
	own := all.WithCredentials(table.Bring(ann, request))
	call := func(b *testing.B, view *steps.View, name string) {
		entry, err := view.Registry().Resolve(name)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := entry.Call(context.Background(), []byte(`{}`)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			call(b, all, "inventory.open")
		}
	})
	b.Run("with", func(b *testing.B) {
		for b.Loop() {
			if table.Bring(ann, request) == "" {
				b.Fatal("nothing was brought")
			}
			call(b, own, "inventory.own")
		}
	})
}
