package http

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/internal/httpbody"
)

// responseCache holds answers that a server can revalidate. It is a private cache (RFC 9111) that never answers by itself: every
// request is sent, and a stored body is used only if the server's 304 says that it is still valid. A nil cache stores nothing.
type responseCache struct {
	maxBytes, maxResponseBytes int64 // the maximum bytes of all answers and of one

	mu    sync.Mutex
	bytes int64
	list  *simplelru.LRU[requestKey, *cachedResponse]
}

// requestKey is the hash of a URL and of the request's headers, including those with credentials: an answer is never used
// for another caller.
type requestKey [sha256.Size]byte

// cachedResponse is a 200 with its body. It does not change.
type cachedResponse struct {
	etag, modified string // the validators; at least one is set
	header         http.Header
	body           []byte
	uncompressed   bool
}

// newResponseCache returns a cache for answers of maxBytes in total; nil if maxBytes is negative.
func newResponseCache(maxBytes int64) *responseCache {
	if maxBytes < 0 {
		return nil
	}
	cache := &responseCache{maxBytes: maxBytes, maxResponseBytes: maxBytes / 8}
	cache.list, _ = simplelru.NewLRU(math.MaxInt32,
		func(_ requestKey, removed *cachedResponse) { cache.bytes -= removed.size() }) // NewLRU fails only for a size below 1
	return cache
}

// size returns the approximate memory of an answer.
func (r *cachedResponse) size() int64 {
	size := int64(len(r.body)) + 512
	for name, values := range r.header {
		size += int64(len(name)) + 64
		for _, value := range values {
			size += int64(len(value)) + 16
		}
	}
	return size
}

// lookup returns the stored answer to a request, nil if there is none, and the key under which to store a new one. A nil key means that
// the new answer must not be stored.
func (c *responseCache) lookup(request *http.Request) (*requestKey, *cachedResponse) {
	if c == nil || !isCacheableRequest(request) {
		return nil, nil
	}
	key := keyOf(request)
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, _ := c.list.Get(key)
	return &key, cached
}

// isCacheableRequest reports whether a request is a plain GET that does not write. It excludes requests that the caller made conditional,
// because a 304 is then the caller's answer.
func isCacheableRequest(request *http.Request) bool {
	if request.Method != http.MethodGet && request.Method != "" || request.Body != nil && request.Body != http.NoBody ||
		httpbody.Writes(request) {
		return false
	}
	for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range"} {
		if request.Header[name] != nil {
			return false
		}
	}
	return !httpguts.HeaderValuesContainsToken(request.Header["Cache-Control"], "no-store")
}

// volatileHeaders differ from request to request and usually do not affect the answer. If a server's Vary names one, its answer is
// not stored.
var volatileHeaders = []string{"Baggage", "Cache-Control", "Pragma", "Traceparent", "Tracestate", "X-Request-Id"}

// keyOf hashes the URL and all headers that Vary may name. Each part is preceded by its length, so that parts cannot run together.
func keyOf(request *http.Request) requestKey {
	hash := sha256.New()
	var scratch [20]byte
	write := func(text string) {
		_, _ = hash.Write(append(strconv.AppendInt(scratch[:0], int64(len(text)), 10), ':'))
		_, _ = io.WriteString(hash, text)
	}
	u := *request.URL
	u.Fragment, u.RawFragment = "", ""
	write(u.String())
	names := make([]string, 0, len(request.Header))
	for name := range request.Header {
		if !slices.Contains(volatileHeaders, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		write(name)
		write(strconv.Itoa(len(request.Header[name])))
		for _, value := range request.Header[name] {
			write(value)
		}
	}
	return requestKey(hash.Sum(nil))
}

// conditional returns the request with the validators of a stored answer; the request itself if there is no stored answer.
func (r *cachedResponse) conditional(request *http.Request) *http.Request {
	if r == nil {
		return request
	}
	conditional := request.WithContext(request.Context())
	conditional.Header = request.Header.Clone()
	if conditional.Header == nil {
		conditional.Header = http.Header{}
	}
	if r.etag != "" {
		conditional.Header.Set("If-None-Match", r.etag)
	}
	if r.modified != "" {
		conditional.Header.Set("If-Modified-Since", r.modified)
	}
	return conditional
}

// isConfirmed reports whether a 304 with this header confirms this answer (RFC 9111, section 4.3.4). Entity tags are
// compared weakly.
func (r *cachedResponse) isConfirmed(header http.Header) bool {
	if etag := header.Get("Etag"); etag != "" && r.etag != "" {
		return strings.TrimPrefix(etag, "W/") == strings.TrimPrefix(r.etag, "W/")
	}
	modified := header.Get("Last-Modified")
	return modified == "" || r.modified == "" || modified == r.modified
}

// refresh returns the whole answer from a stored one and the 304 that confirms it, and stores the 304's new headers (RFC
// 9111, section 3.2).
func (c *responseCache) refresh(key requestKey, cached *cachedResponse, request *http.Request, notModified *http.Response) *http.Response {
	header := cached.header.Clone()
	for name, values := range notModified.Header {
		switch name {
		case "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Keep-Alive", "Set-Cookie", "Trailer",
			"Transfer-Encoding":
		default:
			header[name] = slices.Clone(values)
		}
	}
	if isCacheable(header) {
		renewed := *cached
		renewed.header = header
		c.store(key, &renewed)
	} else {
		c.drop(key)
	}
	response := *notModified
	response.Status, response.StatusCode = "200 OK", http.StatusOK
	response.Header = header.Clone()
	response.Body = io.NopCloser(bytes.NewReader(cached.body))
	response.ContentLength, response.Uncompressed = int64(len(cached.body)), cached.uncompressed
	response.TransferEncoding, response.Trailer = nil, nil
	response.Request = request
	return &response
}

// isCacheable reports whether the header of a 200 has a validator and does not forbid storing.
func isCacheable(header http.Header) bool {
	if header.Get("Etag") == "" && header.Get("Last-Modified") == "" ||
		httpguts.HeaderValuesContainsToken(header["Cache-Control"], "no-store") {
		return false
	}
	if httpguts.HeaderValuesContainsToken(header["Vary"], "*") {
		return false
	}
	return !slices.ContainsFunc(volatileHeaders, func(name string) bool { return httpguts.HeaderValuesContainsToken(header["Vary"], name) })
}

// storeWhenRead stores a 200 once its body has been read to the end. It drops the stored answer if the new one is a 404, a 410, or a 200
// that must not be stored; after any other status the stored answer stays.
func (c *responseCache) storeWhenRead(key requestKey, response *http.Response) {
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		c.drop(key)
		return
	default: // it says nothing about the stored answer
		return
	}
	if !isCacheable(response.Header) || response.ContentLength > c.maxResponseBytes {
		c.drop(key)
		return
	}
	header := response.Header.Clone()
	header.Del("Set-Cookie")
	cached := &cachedResponse{etag: header.Get("Etag"), modified: header.Get("Last-Modified"), header: header,
		uncompressed: response.Uncompressed}
	response.Body = &teeBody{ReadCloser: response.Body, maxBytes: c.maxResponseBytes, onComplete: func(body []byte) {
		cached.body = body
		c.store(key, cached)
	}}
}

func (c *responseCache) store(key requestKey, cached *cachedResponse) {
	size := cached.size()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list.Remove(key)
	if size > c.maxResponseBytes {
		return
	}
	c.list.Add(key, cached)
	for c.bytes += size; c.bytes > c.maxBytes; {
		c.list.RemoveOldest()
	}
}

func (c *responseCache) drop(key requestKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list.Remove(key)
}

// teeBody copies a body while it is read, and calls onComplete with the copy at its end; not if the body is longer than maxBytes or
// breaks off.
type teeBody struct {
	io.ReadCloser
	maxBytes   int64
	read       []byte
	onComplete func([]byte)
	done       bool
}

// Read implements io.Reader.
func (b *teeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.done {
		return n, err
	}
	if int64(len(b.read))+int64(n) > b.maxBytes {
		b.done, b.read = true, nil
		return n, err
	}
	b.read = append(b.read, p[:n]...)
	if err != nil {
		b.done = true
		if err == io.EOF {
			b.onComplete(slices.Clip(b.read))
		}
		b.read = nil
	}
	return n, err
}
