package login

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// toolServer is an MCP server that asks for a token of an authServer.
type toolServer struct {
	*httptest.Server
	mux      *http.ServeMux
	metadata *oauthex.ProtectedResourceMetadata
	around   func(http.Handler) http.Handler // set before it is used
}

func greet(t *testing.T, session *sdk.ClientSession) error {
	t.Helper()
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "greet"})
	if err == nil && (len(got.Content) != 1 || got.Content[0].(*sdk.TextContent).Text != "hello") {
		t.Errorf("the tool answers %v", got)
	}
	return err
}

// browser is the person: it opens the page, is logged in at once, and follows the redirect back.
type browser struct {
	refuse  bool
	before  func(callback *url.URL) // sees the redirect before it is followed
	notices []string
	pages   []page200
}

type page200 struct {
	status int
	text   string
	header http.Header
}

func (b *browser) Notice(text string) { b.notices = append(b.notices, text) }

func (b *browser) Open(address string) error {
	if b.refuse {
		return errors.New("there is no browser")
	}
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := stay.Get(address)
	if err != nil {
		return err
	}
	answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		return errors.New("the authorization server does not send the browser back")
	}
	if b.before != nil {
		b.before(back)
	}
	b.visit(back.String())
	return nil
}

func (b *browser) visit(address string) {
	answer, err := http.Get(address)
	if err != nil {
		b.pages = append(b.pages, page200{text: err.Error()})
		return
	}
	defer answer.Body.Close()
	var text strings.Builder
	buffer := make([]byte, 64<<10)
	n, _ := answer.Body.Read(buffer)
	text.Write(buffer[:n])
	b.pages = append(b.pages, page200{answer.StatusCode, text.String(), answer.Header})
}
