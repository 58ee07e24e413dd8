package cli_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

var updatePictures = flag.Bool("update-pictures", false, "write the pictures of the documents")

// TestPicture: the picture of a run in the README is what onecall graph draws of a chain that fails after the card was charged, and is
// corrected and resumed. Times and estimates of tokens differ from run to run.
func TestPicture(t *testing.T) {
	t.Parallel()
	var charges atomic.Int32
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch carrier := gjson.GetBytes(body, "carrier").Str; {
		case r.URL.Path == "/charges":
			fmt.Fprintf(w, `{"id":"ch_%d"}`, charges.Add(1))
		case carrier == "dlh":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"error":"no carrier dlh, there are dhl and ups"}`)
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"tracking":"JD0146"}`)
		default:
			fmt.Fprint(w, `{"id":1042,"card":"card_8","total":129,"to":"Ann","items":["lamp","cable","shade"],"left":9}`)
		}
	}))
	t.Cleanup(shop.Close)
	folder := t.TempDir()
	clitest.Write(t, folder, "onecall.yaml", strings.ReplaceAll(`
http:
  endpoints:
    order: {url: "SHOP/orders/{id}"}
    stock: {url: "SHOP/stock/{item}"}
    charge: {url: "SHOP/charges", body: {card: $input.card, amount: $input.amount}}
    parcel: {url: "SHOP/parcels", body: {carrier: $input.carrier, to: $input.to}}
functions:
  http.order: {rename: shop.order}
  http.stock: {rename: shop.stock}
  http.charge: {rename: shop.charge}
  http.parcel: {rename: shop.parcel}
`, "SHOP", shop.URL))
	chain := func(carrier string) string {
		return clitest.Write(t, folder, "ship.json", `{"name": "ship", "steps": [
  {"shop.order": {"id": 1042}, "id": "order"},
  {"shop.stock": {"item": "$item"}, "id": "stock", "forEach": "$order.items"},
  {"shop.charge": {"card": "$order.card", "amount": "$order.total"}, "id": "paid"},
  {"shop.parcel": {"carrier": "`+carrier+`", "to": "$order.to"}, "id": "sent"}],
 "return": {"charge": "$paid.id", "tracking": "$sent.tracking"}}`)
	}
	onecall := func(args ...string) (stdout, status string) {
		cmd := clitest.Command(t, folder, args...)
		out, err := cmd.Output()
		return string(out), clitest.ExitCode(err)
	}
	if out, status := onecall("run", chain("dlh")); status != "1" {
		t.Fatalf("the chain with a mistake: exit status %s, want 1: %s", status, out)
	}
	if out, status := onecall("resume", "--last", chain("dhl"), "--lite"); status != "0" || charges.Load() != 1 {
		t.Fatalf("the corrected chain: exit status %s and %d charges, want 0 and 1: %s", status, charges.Load(), out)
	}
	picture, status := onecall("graph", "--last")
	if status != "0" {
		t.Fatalf("onecall graph: exit status %s: %s", status, picture)
	}
	const file = "../../docs/images/run.svg"
	if *updatePictures {
		if err := os.WriteFile(file, []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	differs := regexp.MustCompile(`run_\w+|[\d.,]+ (ms|s|tokens)\b`)
	shape := func(svg string) string { return differs.ReplaceAllString(svg, "…") }
	if shape(picture) != shape(string(kept)) {
		t.Errorf("docs/images/run.svg is not what onecall graph draws now: go test ./internal/cli -run TestPicture -update-pictures\n%s", picture)
	}
}
