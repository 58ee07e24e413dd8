package http

import (
	"net/http"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/httpbody"
)

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   []byte // JSON
	empty  bool   // there was no body
}

// readReply reads and closes a response. status is the fault of a status of 400 or more. err means that the response could not be
// read completely.
func (s *Source) readReply(response *http.Response, host string) (r *reply, status *fault.Error, err error) {
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 400 {
		status = httpbody.Refusal(response.Request, response, false) // response.Request is the last one sent, after redirects
		status.Message = host + " " + status.Message
		return nil, status, nil
	}
	read, whole, err := httpbody.Read(response.Request.Context(), response, s.maxBody)
	defer read.Release()
	switch {
	case err != nil:
		return nil, nil, err
	case !whole:
		f := fault.New(fault.LimitExceeded, "the body of %s is larger than %d bytes: ask for less, by a page or a range", host, s.maxBody)
		f.Outcome = fault.Applied
		return nil, nil, f
	}
	body, problem, err := read.Result(response.Header, false)
	switch {
	case err != nil:
		return nil, nil, err
	case problem != "":
		f := fault.New(fault.FunctionFailed, "%s answered %d %s", host, response.StatusCode, problem)
		f.Status, f.Body, f.Outcome = response.StatusCode, httpbody.Excerpt(response.Header, read.Data), fault.Applied
		return nil, nil, f
	}
	return &reply{response.StatusCode, response.Header, body, len(read.Data) == 0}, nil, nil
}

// result returns {status, headers, body} as JSON, with few headers.
func (r *reply) result() []byte { return httpbody.Response(r.status, r.header, isShown, r.body) }

// headersShown lists the response headers that a later step may need: paging, caching, limits.
var headersShown = []string{
	"Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Disposition", "Content-Language",
	"Content-Length", "Content-Range", "Content-Type",
	"Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After", "X-Next-Page", "X-Page", "X-Per-Page",
	"X-Prev-Page", "X-Request-Id", "X-Total", "X-Total-Count", "X-Total-Pages",
}

func isShown(name string) bool {
	return slices.Contains(headersShown, name) || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit")
}
